"""The program as its user runs it: what it gives compiled, beside what it gives with compilation off."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .compared import Compared, must_prove
from .criterion import Criterion
from .evidence import Evidence
from .judge import divergence, judge, raises_told
from .model import DivergenceKind, Json, Measurement, Outcome, OutputMeasurement, Raised
from .printed import MOST_LINES, PrintedLine, differing, differing_line, is_near

PROGRAM = -1  # in the place of a call's index: the whole script
WHOLE_SCRIPT = "the whole script"  # in the place of the digest of its inputs
LINE = "line["  # begins the path of a printed line
KEPT = "eager.json"  # in the folder of the values: what else the run with compilation off was


class Mode(enum.Enum):
    """How the script is run."""

    EAGER = "eager"  # compilation is off; what it gives is kept
    EAGER_AGAIN = "eager again"  # compilation is off; what it gives is measured against what was kept
    COMPILED = "compiled"  # as it is; what it gives is measured against what was kept
    EAGER_BESIDE = "eager beside eager"  # compilation is off; each call is run again on the same inputs
    COMPILED_BESIDE = "compiled beside eager"  # as it is; each call is run in eager too, on the same inputs
    COMPILED_KEPT = "compiled, kept"  # as it is; what each call was given and gave is kept
    SUBSTITUTED = "eager with the compiled values"  # compilation is off; each call gives what was kept

    @property
    def is_compiled(self) -> bool:
        return self in (Mode.COMPILED, Mode.COMPILED_BESIDE, Mode.COMPILED_KEPT)


class EffectKind(enum.Enum):
    """What a call does beside giving values."""

    MUTATES = "changes an argument in place"
    MAKES_LAZY = "makes the parameters of a lazy module"
    CHANGES_STATE = "changes parameters or buffers"
    DRAWS = "draws random numbers"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a plain run is made.

    seed: where the script sets none. backend: in the place of the script's own, where that does more. until:
    the last call that is looked at, by its place; the script ends after it.
    slow: where each call gives what it gave compiled, it takes as long, too. put_back: what a call does that
    is undone before the next one; codes: where the functions are written of which that holds, as `file:line`.
    early, late: lines of Python that a fix consists of: before torch is imported, and before the first call
    of something compiled, since the script may register lowerings of its own until then. disabled: lines of
    `def`, from 1, that get the decorator `torch.compiler.disable`. anew: numbers of calls, from 1, before
    which what is compiled is forgotten. arguments: of torch.compile, in the place of the script's own.
    """

    mode: Mode
    seed: int
    backend: str | None = None
    until: int | None = None
    slow: bool = False
    put_back: EffectKind | None = None
    codes: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    disabled: tuple[int, ...] = ()
    anew: tuple[int, ...] = ()
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PlainOptions(RunOptions):
    """What its process is told beside that.

    folder: where the values of the eager run are kept. events: the file that takes what is seen. root: the
    folder that holds the package.
    """

    folder: str
    events: str
    root: str


@dataclass(frozen=True)
class Effect:
    """name: of the argument, parameter or buffer."""

    kind: EffectKind
    name: str = ""


@dataclass(frozen=True)
class CompiledCall:
    """One call of something compiled, in the order of their beginnings. Calls within a call are part of it.

    outputs: what it returned, what its arguments held afterwards, and, before the next call, the gradients,
    parameters and buffers. Of a run with compilation off they are empty. raised: type and message, by it or
    by a backward pass before the next call. unseen: which of its values could not be compared, and why. same:
    how many values beside the outputs are the same: names, numbers and the like.

    effects: what else it did, of a run with compilation off; code: where it is written, as `file:line`. key:
    what it is known by where the script calls from several threads, so that the order of its calls is chance.

    beside: what the call gave, against eager on the very inputs that it had, where that was run too;
    beside_unseen: why that says nothing, or not all.
    """

    index: int
    entry: str
    outputs: tuple[OutputMeasurement, ...] = ()
    raised: str | None = None
    unseen: str | None = None
    same: int = 0
    effects: tuple[Effect, ...] = ()
    code: str = ""
    key: str = ""
    beside: Evidence | None = None
    beside_unseen: str = ""


@dataclass(frozen=True)
class PlainRun:
    """One run of the script.

    agreed: the answers of its own comparisons of tensors; refuted: how many of them raised. environment:
    variables that it had changed when it imported torch. ended: the exception that ended it; status: None
    where its time was up. printed: the lines on stdout; said: those that it printed on stderr, where the
    libraries' own are left out. backends: what it gave to torch.compile, as rungs. parted: of a run in which
    each call gave what it gave compiled, the first call that was given something else than in the compiled
    run, and at: what; empty where that could not be compared.
    """

    calls: tuple[CompiledCall, ...] = ()
    agreed: tuple[bool, ...] = ()
    refuted: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: str | None = None
    status: int | None = None
    printed: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    parted: int | None = None
    at: str = ""

    @property
    def unfinished(self) -> str:
        """Why its end says nothing of the script; empty where it came to its end."""
        if self.status is None:
            return "was stopped, its time being up"
        return f"was killed ({self.ended})" if -self.status in FROM_OUTSIDE else ""


LATE = "a gradient came back to it after the next call, and was not compared"
Event = Mapping[str, Any]


def with_events(run: PlainRun, calls: Sequence[CompiledCall], events: Sequence[Event]) -> PlainRun:
    """The run with what was noted while it ran (`inductor/program/watching.py`). calls: those that were
    noted; events: all else, in order."""
    agreed, backends, said, late, refuted = list[bool](), list[str](), list[str](), set[int](), 0
    for event in events:
        if "agreed" in event:
            agreed.append(event["agreed"])
            refuted += event.get("raised", False)
        elif "said" in event:
            said += event["said"].splitlines()
        elif "late" in event:
            late.add(event["late"])
        elif "backend" in event:
            backends.append(event["backend"])
        else:
            run = replace(run, **event)
    return replace(
        run,
        calls=tuple(
            replace(call, beside_unseen=LATE) if call.index in late else call
            for call in sorted(calls, key=lambda call: call.index)
        ),
        agreed=tuple(agreed),
        refuted=refuted,
        said=tuple(said[:MOST_LINES]),
        backends=tuple(dict.fromkeys(backends)),
    )


def without_its_own_words(run: PlainRun) -> PlainRun:
    """The run where a criterion of the user's stands in the place of what the script says of itself: its
    comparisons, what it prints, an assertion that ends it, a status that it chooses. Another exception or a
    signal is no opinion of the script's, and stays."""
    if run.unfinished:
        return run
    chosen = run.ended is None or _type(run.ended) == "AssertionError"
    silent = replace(run, agreed=(), refuted=0, printed=(), said=())
    return replace(silent, ended=None, status=0) if chosen and (run.status or 0) >= 0 else silent


# Signals that somebody or the machine sends, SIGHUP, SIGINT, SIGKILL and SIGTERM; a crash has others.
FROM_OUTSIDE = (1, 2, 9, 15)


@dataclass(frozen=True)
class ScriptResult:
    """What a plain run shows beside the one with compilation off. Raises NothingCompared where it would agree
    without what was compared.

    outcome: FAIL where something differs, UNRESOLVED where nothing that was seen does and something was not
    seen. reason: in a sentence; empty where they agree. call: the first compiled call that differs.
    exception: what one of the two raised there. kind, path: of the first output that differs there, or of a
    printed line, whose kind is VALUE, where its numbers are nearly alike. compared: of two runs that agree.
    """

    outcome: Outcome
    reason: str = ""
    call: int | None = None
    exception: str | None = None
    kind: DivergenceKind | None = None
    path: str = ""
    compared: Compared | None = None

    def __post_init__(self) -> None:
        if self.outcome is Outcome.PASS:
            must_prove(self.compared)

    @classmethod
    def agrees(cls, compared: Compared) -> ScriptResult:
        """Nothing differs in what was compared."""
        return cls(Outcome.PASS, compared=compared)

    @property
    def diverges(self) -> bool:
        return self.outcome is Outcome.FAIL

    @property
    def is_printed(self) -> bool:
        """Whether nothing but a printed line differs: the values of the calls, comparisons and ends agree."""
        return self.path.startswith(LINE)


def shown(
    eager: PlainRun, compiled: PlainRun, criterion: Criterion, lines: Sequence[PrintedLine] = ()
) -> ScriptResult:
    """The strongest of what differs: values of a call, an exception, the script's own comparison, its end,
    what it prints. lines: the printed ones that count."""
    return (
        _in_calls(eager, compiled, criterion)
        or _in_comparisons(eager, compiled)
        or (None if eager.unfinished or compiled.unfinished else _at_the_end(eager, compiled, lines))
        or _not_seen(eager, compiled)
        or ScriptResult.agrees(_compared(eager, compiled))
    )


def _compared(eager: PlainRun, compiled: PlainRun) -> Compared:
    """Of two runs that came to their ends, and of which nothing was left out. Of what they print nothing
    differs but what is known to move."""
    return Compared(
        values=sum(len(call.outputs) + call.same for call in compiled.calls),
        calls=len(compiled.calls),
        comparisons=len(compiled.agreed),
        lines=max(len(eager.printed), len(compiled.printed)),
        ends=tuple(run.ended or f"exit status {run.status}" for run in (eager, compiled)),
    )


def _pairs(eager: PlainRun, compiled: PlainRun) -> list[tuple[CompiledCall, CompiledCall]]:
    """Calls that are held against each other: by their order, or by what they are known by."""
    known = {call.key: call for call in eager.calls if call.key}
    in_order = iter([call for call in eager.calls if not call.key])
    found = [(known.get(c.key) if c.key else next(in_order, None), c) for c in compiled.calls]
    return [(before, now) for before, now in found if before is not None]


def _in_calls(eager: PlainRun, compiled: PlainRun, criterion: Criterion) -> ScriptResult | None:
    for before, now in _pairs(eager, compiled):  # a call more or less: `_not_seen`
        if before.entry != now.entry:
            break
        where = f"call {now.index + 1} of {len(compiled.calls)} (`{now.entry}`)"
        if _type(before.raised) != _type(now.raised):
            raised = Raised(before.raised, now.raised, alike=False)
            reason = f"{where}: {raises_told(raised)}"
            return ScriptResult(Outcome.FAIL, reason, now.index, before.raised or now.raised)
        result = judge(Measurement(outputs=now.outputs), criterion)
        if result.outcome is Outcome.FAIL:
            first = result.signatures[0] if result.signatures else None
            kind, path = (first.kind, first.path) if first is not None else (None, "")
            reason = f"{where}: {_first_of(result.reason)}"
            return ScriptResult(Outcome.FAIL, reason, now.index, kind=kind, path=path)
    return None


def _in_comparisons(eager: PlainRun, compiled: PlainRun) -> ScriptResult | None:
    fails = _first_that_fails(eager.agreed, compiled.agreed)
    if fails is None:
        return None
    reason = f"its comparison {fails + 1} of {len(compiled.agreed)}, which fails compiled alone"
    return ScriptResult(Outcome.FAIL, reason)


def _at_the_end(
    eager: PlainRun, compiled: PlainRun, lines: Sequence[PrintedLine]
) -> ScriptResult | None:
    if (eager.status, _type(eager.ended)) != (compiled.status, _type(compiled.ended)):
        ends = [run.ended or f"exit status {run.status}" for run in (eager, compiled)]
        return ScriptResult(Outcome.FAIL, f"its end: {ends[1]}; with compilation off {ends[0]}")
    different = differing(eager, compiled, lines)
    if not different:
        return None
    line = different[0]
    kind = DivergenceKind.VALUE if is_near(line, eager, compiled) else None
    said = differing_line(line, eager, compiled)
    return ScriptResult(Outcome.FAIL, said, kind=kind, path=f"{LINE}{line}]")


def _not_seen(eager: PlainRun, compiled: PlainRun) -> ScriptResult | None:
    """What was not compared, where all that was compared agrees."""
    for run, which in ((eager, "with compilation off"), (compiled, "compiled")):
        if run.unfinished:
            return ScriptResult(Outcome.UNRESOLVED, f"{which}, the script {run.unfinished}")
    counts = len(eager.calls), len(compiled.calls)
    for before, now in _pairs(eager, compiled):
        if before.entry != now.entry:
            which = f"of `{now.entry}`, and with compilation off of `{before.entry}`"
            reason = f"compiled, call {now.index + 1} is one {which}"
            return ScriptResult(Outcome.UNRESOLVED, reason, now.index)
    if counts[0] == counts[1] and len(_pairs(eager, compiled)) < counts[1]:
        reason = "it calls from several threads, and not each call could be told from the others"
        return ScriptResult(Outcome.UNRESOLVED, reason)
    if counts[0] != counts[1]:
        reason = (
            f"compiled, the script makes {counts[1]} calls of compiled functions, and {counts[0]} with "
            f"compilation off; the first {min(counts)} agree"
        )
        return ScriptResult(Outcome.UNRESOLVED, reason)
    for call in (*compiled.calls, *eager.calls):
        if call.unseen:
            where = f"call {call.index + 1} of {counts[1]} (`{call.entry}`)"
            return ScriptResult(Outcome.UNRESOLVED, f"{where}: {call.unseen}", call.index)
    if len(eager.agreed) != len(compiled.agreed):
        said = f"{len(compiled.agreed)} comparisons, and {len(eager.agreed)} with compilation off"
        return ScriptResult(Outcome.UNRESOLVED, f"compiled, the script makes {said}")
    return None


def not_compared(eager: PlainRun, compiled: PlainRun) -> str | None:
    """What of two runs was not compared, so that outputs which agree prove nothing; None where all was."""
    found = _not_seen(eager, compiled)
    return None if found is None else found.reason


def outputs_of(
    eager: PlainRun,
    compiled: PlainRun,
    place: CompiledCall | None = None,
    lines: Sequence[PrintedLine] = (),
) -> tuple[OutputMeasurement, ...]:
    """What the compiled run gave, by call; exceptions, comparisons, the end and printed lines as outputs of
    their own.

    place: a call of which the values on equal inputs are told instead. lines: the printed ones that count.
    """
    found: list[OutputMeasurement] = []
    for before, now in _pairs(eager, compiled):
        if _type(before.raised) == _type(now.raised):
            evidence = place.beside if place is not None and place.index == now.index else None
            outputs = now.outputs if evidence is None else evidence.default.outputs
            found += [replace(o, path=f"call[{now.index}].{o.path}") for o in outputs]
        else:  # what else it lacks comes of that
            raised = Raised(before.raised, now.raised, alike=False)
            found.append(_another(f"call[{now.index}].exception", raised=raised))
    for index, (before_agreed, agreed) in enumerate(zip(eager.agreed, compiled.agreed, strict=False)):
        if before_agreed and not agreed:
            found.append(_another(f"comparison[{index}]", said="fails compiled alone"))
    ends = [_type(run.ended) or f"status {run.status}" for run in (eager, compiled)]
    if ends[0] != ends[1] and not any(o.raised for o in found):
        found.append(_another("end[0]", said=f"{ends[1]} instead of {ends[0]}"))
    different = differing(eager, compiled, lines)
    found += [_another(f"{LINE}{n}]", said=differing_line(n, eager, compiled)) for n in different]
    return tuple(replace(output, index=index) for index, output in enumerate(found))


def is_exact(compiled: PlainRun) -> bool:
    """Whether all values of all calls of a run were seen, and are bit-equal to eager's."""
    outputs = [output for call in compiled.calls for output in call.outputs]
    same = all(not o.n_diff and divergence(o, Criterion()) is None for o in outputs)
    compared = bool(outputs) or any(call.same for call in compiled.calls)
    return compared and same and not any(call.unseen or call.raised for call in compiled.calls)


def _another(path: str, said: str | None = None, raised: Raised | None = None) -> OutputMeasurement:
    return OutputMeasurement(0, path, "", (), 1, alias_mismatch=said, raised=raised)


def _first_of(reason: str) -> str:
    """The first output that diverges; of the others how many, since a training step has hundreds."""
    first, *more = reason.split("; ")
    return first if not more else f"{first} (and {len(more)} more output{'s' if len(more) > 1 else ''})"


def _first_that_fails(eager: Sequence[bool], compiled: Sequence[bool]) -> int | None:
    pairs = enumerate(zip(eager, compiled, strict=False))
    return next((i for i, (before, now) in pairs if before and not now), None)


def _type(ended: str | None) -> str:
    return (ended or "").partition(":")[0]
