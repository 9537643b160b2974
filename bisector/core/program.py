"""The program as its user runs it: what it gives compiled, beside what it gives with compilation off."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from .judge import Criterion, judge, raises_told
from .model import DivergenceKind, Measurement, Outcome, OutputMeasurement, Raised

PROGRAM = -1  # in the place of a call's index: the whole script
WHOLE_SCRIPT = "the whole script"  # in the place of the digest of its inputs
KEPT = "eager.json"  # in the folder of the values: what else the run with compilation off was


class Mode(enum.Enum):
    """How the script is run."""

    EAGER = "eager"  # compilation is off; what it gives is kept
    EAGER_AGAIN = "eager again"  # compilation is off; what it gives is measured against what was kept
    COMPILED = "compiled"  # as it is; what it gives is measured against what was kept


@dataclass(frozen=True)
class PlainOptions:
    """What a plain run is told.

    folder: where the values of the eager run are kept. events: the file that takes what is seen. root: the
    folder that holds the package. backend: in the place of the script's Inductor.
    """

    folder: str
    events: str
    root: str
    mode: Mode
    seed: int
    backend: str | None = None


@dataclass(frozen=True)
class CompiledCall:
    """One call of something compiled, in the order of their beginnings.

    outputs: what it returned, what its arguments held afterwards, and, before the next call, the gradients,
    parameters and buffers. Of a run with compilation off they are empty. raised: type and message, by it or
    by a backward pass before the next call.
    """

    index: int
    entry: str
    outputs: tuple[OutputMeasurement, ...] = ()
    raised: str | None = None


@dataclass(frozen=True)
class PlainRun:
    """One run of the script.

    agreed: the answers of its own comparisons of tensors. environment: variables that it had changed when it
    imported torch. ended: the exception that ended it; status: None where its time was up. printed: the
    lines on stdout; said: those that it printed on stderr, where the libraries' own are left out.
    """

    calls: tuple[CompiledCall, ...] = ()
    agreed: tuple[bool, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: str | None = None
    status: int | None = None
    printed: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What a plain run shows beside the one with compilation off.

    reason: in a sentence; empty where nothing differs. call: the first compiled call that differs.
    exception: what one of the two raised there. kind: of the first output that differs there.
    """

    reason: str = ""
    call: int | None = None
    exception: str | None = None
    kind: DivergenceKind | None = None

    @property
    def diverges(self) -> bool:
        return bool(self.reason)


NOTHING = Shown()


def shown(
    eager: PlainRun, compiled: PlainRun, criterion: Criterion, lines: Sequence[int] = ()
) -> Shown:
    """The strongest of what differs: values of a call, an exception, the script's own comparison, its end,
    what it prints. lines: the printed ones that count."""
    if eager.status is None or compiled.status is None:
        return NOTHING
    for before, now in zip(eager.calls, compiled.calls, strict=False):
        where = f"call {now.index + 1} of {len(compiled.calls)} (`{now.entry}`)"
        if (before.raised is None) != (now.raised is None):
            raised = Raised(before.raised, now.raised, alike=False)
            return Shown(f"{where}: {raises_told(raised)}", now.index, before.raised or now.raised)
        result = judge(Measurement(outputs=now.outputs), criterion)
        if result.outcome is Outcome.FAIL:
            kind = result.signatures[0].kind if result.signatures else None
            return Shown(f"{where}: {_first_of(result.reason)}", now.index, kind=kind)
    fails = _first_that_fails(eager.agreed, compiled.agreed)
    if fails is not None:
        return Shown(f"its comparison {fails + 1} of {len(compiled.agreed)}, which fails compiled alone")
    if (eager.status, _type(eager.ended)) != (compiled.status, _type(compiled.ended)):
        ends = [run.ended or f"exit status {run.status}" for run in (eager, compiled)]
        return Shown(f"its end: {ends[1]}; with compilation off {ends[0]}")
    different = set(apart(eager, compiled)) & set(lines)
    if different:
        return Shown(_line(min(different), eager, compiled))
    return NOTHING


def outputs_of(eager: PlainRun, compiled: PlainRun) -> tuple[OutputMeasurement, ...]:
    """What the compiled run gave, by call; exceptions, comparisons and the end as outputs of their own."""
    found: list[OutputMeasurement] = []
    for before, now in zip(eager.calls, compiled.calls, strict=False):
        if (before.raised is None) == (now.raised is None):
            found += [replace(o, path=f"call[{now.index}].{o.path}") for o in now.outputs]
        else:  # what else it lacks comes of that
            raised = Raised(before.raised, now.raised, alike=False)
            found.append(_another(f"call[{now.index}].exception", raised=raised))
    for index, (before_agreed, agreed) in enumerate(zip(eager.agreed, compiled.agreed, strict=False)):
        if before_agreed and not agreed:
            found.append(_another(f"comparison[{index}]", said="fails compiled alone"))
    ends = [_type(run.ended) or f"status {run.status}" for run in (eager, compiled)]
    if ends[0] != ends[1] and not any(o.raised for o in found):
        found.append(_another("end[0]", said=f"{ends[1]} instead of {ends[0]}"))
    return tuple(replace(output, index=index) for index, output in enumerate(found))


def _another(path: str, said: str | None = None, raised: Raised | None = None) -> OutputMeasurement:
    return OutputMeasurement(0, path, "", (), 1, alias_mismatch=said, raised=raised)


def _first_of(reason: str) -> str:
    """The first output that diverges; of the others how many, since a training step has hundreds."""
    first, *more = reason.split("; ")
    return first if not more else f"{first} (and {len(more)} more output{'s' if len(more) > 1 else ''})"


def _line(line: int, eager: PlainRun, compiled: PlainRun) -> str:
    off, on = (_told(text) for text in dict(_lines(eager, compiled))[line])
    where = f"line {line % SAID + 1} of its output{' on stderr' if line >= SAID else ''}"
    return f"{where}: it prints {on}, with compilation off {off}"


def _told(text: str | None) -> str:
    return "nothing" if text is None else f"`{text}`"


def apart(one: PlainRun, two: PlainRun) -> tuple[int, ...]:
    """The printed lines that differ in words or, by more than what a float32 sum is off, in numbers. Those
    on stderr are numbered from SAID on."""
    return tuple(i for i, (a, b) in _lines(one, two) if a != b and _say_other_things(a, b))


def _lines(one: PlainRun, two: PlainRun) -> list[tuple[int, tuple[str | None, str | None]]]:
    """Line by line; None where one of them printed fewer."""
    printed = enumerate(zip_longest(one.printed, two.printed))
    return [*printed, *enumerate(zip_longest(one.said, two.said), SAID)]


SAID = 1 << 20
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)")
PRINTED_ALIKE = 1e-4  # relative: torch prints four digits
ALIKE_TO_ZERO = 1e-5  # a difference that is printed; atol of torch.testing.assert_close for float32


def _say_other_things(a: str | None, b: str | None) -> bool:
    if a is None or b is None:
        return True
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return True
    numbers = [[float(found) for found in _NUMBER.findall(line)] for line in (a, b)]
    return any(
        x != y and not (math.isnan(x) and math.isnan(y)) and not _alike(x, y)
        for x, y in zip(*numbers, strict=True)
    )


def _alike(x: float, y: float) -> bool:
    if 0.0 in (x, y):
        return abs(x - y) <= ALIKE_TO_ZERO
    return math.isclose(x, y, rel_tol=PRINTED_ALIKE)


def _first_that_fails(eager: Sequence[bool], compiled: Sequence[bool]) -> int | None:
    pairs = enumerate(zip(eager, compiled, strict=False))
    return next((i for i, (before, now) in pairs if before and not now), None)


def _type(ended: str | None) -> str:
    return (ended or "").partition(":")[0]
