"""The program as its user runs it: what it gives compiled, beside what it gives with compilation off."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .judge import Criterion, judge
from .model import DivergenceKind, Measurement, Outcome, OutputMeasurement

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
    parameters and buffers. Of a run with compilation off they are empty. raised: type and message.
    """

    index: int
    entry: str
    outputs: tuple[OutputMeasurement, ...] = ()
    raised: str | None = None


@dataclass(frozen=True)
class PlainRun:
    """One run of the script.

    agreed: the answers of its own comparisons of tensors. environment: variables that it had changed when it
    imported torch. ended: the exception that ended it; status: None where its time was up.
    """

    calls: tuple[CompiledCall, ...] = ()
    agreed: tuple[bool, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: str | None = None
    status: int | None = None
    printed: tuple[str, ...] = ()


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
            side = f"eager raises {before.raised}" if before.raised else f"compiled raises {now.raised}"
            raised = before.raised or now.raised
            return Shown(f"{where}: {side}, the other returns", now.index, raised)
        result = judge(Measurement(outputs=now.outputs), criterion)
        if result.outcome is Outcome.FAIL:
            kind = result.signatures[0].kind if result.signatures else None
            return Shown(f"{where}: {result.reason}", now.index, kind=kind)
    fails = _first_that_fails(eager.agreed, compiled.agreed)
    if fails is not None:
        return Shown(f"its comparison {fails + 1} of {len(compiled.agreed)}, which fails compiled alone")
    if (eager.status, _type(eager.ended)) != (compiled.status, _type(compiled.ended)):
        ends = [run.ended or f"exit status {run.status}" for run in (eager, compiled)]
        return Shown(f"its end: {ends[1]}; with compilation off {ends[0]}")
    different = set(apart(eager, compiled)) & set(lines)
    if different:
        line = min(different)
        off, on = eager.printed[line], compiled.printed[line]
        return Shown(f"line {line + 1} of its output: it prints `{on}`, with compilation off `{off}`")
    return NOTHING


def apart(one: PlainRun, two: PlainRun) -> tuple[int, ...]:
    """The printed lines that differ in words or, by more than what a float32 sum is off, in numbers."""
    pairs = enumerate(zip(one.printed, two.printed, strict=False))
    return tuple(i for i, (a, b) in pairs if a != b and _say_other_things(a, b))


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)")
PRINTED_ALIKE = 1e-4  # relative: torch prints four digits


def _say_other_things(a: str, b: str) -> bool:
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return True
    numbers = [[float(found) for found in _NUMBER.findall(line)] for line in (a, b)]
    return any(
        x != y and not (math.isnan(x) and math.isnan(y)) and not math.isclose(x, y, rel_tol=PRINTED_ALIKE)
        for x, y in zip(*numbers, strict=True)
    )


def _first_that_fails(eager: Sequence[bool], compiled: Sequence[bool]) -> int | None:
    pairs = enumerate(zip(eager, compiled, strict=False))
    return next((i for i, (before, now) in pairs if before and not now), None)


def _type(ended: str | None) -> str:
    return (ended or "").partition(":")[0]
