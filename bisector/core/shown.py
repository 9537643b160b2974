"""What two runs of a script show when compared: where they differ first, and what was compared where they
do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .compared import Compared, must_prove
from .criterion import Criterion
from .judge import judge
from .model import DivergenceKind, Measurement, OutputMeasurement, Raised
from .outcome import Outcome
from .printed import MOST_LINES, PrintedLine, differing, differing_line, is_near
from .probe_reasons import RaisesOtherwise
from .program import CompiledCall, PlainRun, exception_type
from .reasons import SILENT, Message, Reason, Together
from .script_reasons import AndMore, AtCall, ComparisonFails, OtherEnd

LINE = "line["  # begins the path of a printed line
CALL = "call["  # begins that of a value of a call, or of what it raised


@dataclass(frozen=True)
class ScriptResult:
    """What a plain run shows against the one with compilation off. Raises NothingCompared where it would
    agree without what was compared.

    outcome: FAIL where something differs, UNRESOLVED where nothing that was seen does and something was not
    seen. reason: silent where they agree. call: the first compiled call that differs.
    exception: what one of the two raised there. kind, path: of the first output that differs there, or of a
    printed line, whose kind is VALUE, where its numbers are nearly equal. compared: of two runs that agree.
    """

    outcome: Outcome
    reason: Reason = SILENT
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
        or _unresolved(eager, compiled)
        or ScriptResult.agrees(_compared(eager, compiled))
    )


def _compared(eager: PlainRun, compiled: PlainRun) -> Compared:
    """Of two runs that came to their ends, and of which nothing was left out. Of what they print nothing
    differs but what is known to move."""
    outputs = [output for call in compiled.calls for output in call.outputs]
    return Compared(
        values=len(outputs) + sum(call.same for call in compiled.calls),
        unequal=sum(output.n_diff > 0 for output in outputs),
        calls=len(compiled.calls),
        comparisons=len(compiled.agreed),
        lines=max(eager.lines, compiled.lines),
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
        where = now.named, len(compiled.calls)
        if not _raise_the_same(before, now):
            raises = AtCall(*where, RaisesOtherwise(before.raised, now.raised))
            return ScriptResult(Outcome.FAIL, raises, now.index, before.raised or now.raised)
        result = judge(Measurement(outputs=now.outputs), criterion)
        if result.outcome is Outcome.FAIL:
            first = result.signatures[0] if result.signatures else None
            kind, path = (first.kind, first.path) if first is not None else (None, "")
            differs = AtCall(*where, _first_of(result.reason))
            return ScriptResult(Outcome.FAIL, differs, now.index, kind=kind, path=path)
    return None


# What Dynamo raises in the place of an operation that fails on the shapes and dtypes it is given
# (torch/_dynamo/exc.py). All of its exceptions are a RuntimeError, as most of torch's operations raise.
FAILS_IN_TRACING = "TorchRuntimeError"


def _raise_the_same(eager: CompiledCall, compiled: CompiledCall) -> bool:
    """Whether both return, or raise the same type; or what compiled raises is of the type of what eager
    raises, and stands for it: what arises while Dynamo traces comes in classes of its own, as does what it
    refuses to trace, and what a compiler fails at."""
    if eager.raised is None or compiled.raised is None:
        return eager.raised is compiled.raised
    theirs, message = exception_type(eager.raised), eager.raised.partition(": ")[2]
    if theirs == exception_type(compiled.raised):
        return True
    quoted = FAILS_IN_TRACING in compiled.classes or (bool(message) and message in compiled.raised)
    return theirs in compiled.classes and quoted


def _in_comparisons(eager: PlainRun, compiled: PlainRun) -> ScriptResult | None:
    fails = _first_that_fails(eager.agreed, compiled.agreed)
    if fails is None:
        return None
    return ScriptResult(Outcome.FAIL, ComparisonFails(fails + 1, len(compiled.agreed)))


def _at_the_end(
    eager: PlainRun, compiled: PlainRun, lines: Sequence[PrintedLine]
) -> ScriptResult | None:
    if not _end_the_same(eager, compiled):
        ends = [run.ended or f"exit status {run.status}" for run in (compiled, eager)]
        return ScriptResult(Outcome.FAIL, OtherEnd(*ends))
    different = differing(eager, compiled, lines)
    if not different:
        return None
    line = different[0]
    kind = DivergenceKind.VALUE if is_near(line, eager, compiled) else None
    reason = Message(differing_line(line, eager, compiled))
    return ScriptResult(Outcome.FAIL, reason, kind=kind, path=f"{LINE}{line}]")


def _end_the_same(eager: PlainRun, compiled: PlainRun) -> bool:
    """Whether both end with one status, by exceptions of one type; what these say is a line."""
    types = exception_type(eager.ended), exception_type(compiled.ended)
    return (eager.status, types[0]) == (compiled.status, types[1])


def _unresolved(eager: PlainRun, compiled: PlainRun) -> ScriptResult | None:
    found = _not_seen(eager, compiled)
    return None if found is None else ScriptResult(Outcome.UNRESOLVED, Message(found[0]), found[1])


def _not_seen(eager: PlainRun, compiled: PlainRun) -> tuple[str, int | None] | None:
    """What was not compared, where all that was compared agrees, and the call that it is about. It is text,
    since the answer to a probe of the script holds it."""
    for run, which in ((eager, "with compilation off"), (compiled, "compiled")):
        if run.unfinished:
            return f"{which}, the script {run.unfinished}", None
    for run in (eager, compiled):
        if run.unseen:
            return run.unseen, None
    if eager.cut != compiled.cut:
        return f"it prints more than {MOST_LINES} lines, and those after them are not the same", None
    counts = len(eager.calls), len(compiled.calls)
    for before, now in _pairs(eager, compiled):
        if before.entry != now.entry:
            which = f"of `{now.entry}`, and with compilation off of `{before.entry}`"
            return f"compiled, call {now.index + 1} is one {which}", now.index
    if counts[0] == counts[1] and len(_pairs(eager, compiled)) < counts[1]:
        return "it calls from several threads, and not each call could be told from the others", None
    if counts[0] != counts[1]:
        reason = (
            f"compiled, the script makes {counts[1]} calls of compiled functions, and {counts[0]} with "
            f"compilation off; the first {min(counts)} agree"
        )
        return reason, None
    for call in (*compiled.calls, *eager.calls):
        if call.unseen:
            where = f"call {call.index + 1} of {counts[1]} (`{call.entry}`)"
            return f"{where}: {call.unseen}", call.index
    if len(eager.agreed) != len(compiled.agreed):
        counted = f"{len(compiled.agreed)} comparisons, and {len(eager.agreed)} with compilation off"
        return f"compiled, the script makes {counted}", None
    return None


def not_compared(eager: PlainRun, compiled: PlainRun) -> str | None:
    """What of two runs was not compared, so that outputs which agree prove nothing; None where all was."""
    found = _not_seen(eager, compiled)
    return None if found is None else found[0]


def outputs_of(
    eager: PlainRun,
    compiled: PlainRun,
    place: CompiledCall | None = None,
    lines: Sequence[PrintedLine] = (),
) -> tuple[OutputMeasurement, ...]:
    """What the compiled run gave, by call; exceptions, comparisons, the end and printed lines as outputs of
    their own.

    place: a call that is measured by its values on equal inputs instead. lines: the printed ones that count.
    """
    found: list[OutputMeasurement] = []
    for before, now in _pairs(eager, compiled):
        if _raise_the_same(before, now):
            evidence = place.beside if place is not None and place.index == now.index else None
            outputs = now.outputs if evidence is None else evidence.default.outputs
            found += [replace(o, path=f"{CALL}{now.index}].{o.path}") for o in outputs]
        else:  # what else it lacks comes of that
            raised = Raised(before.raised, now.raised, alike=False)
            found.append(_another(f"{CALL}{now.index}].exception", raised=raised))
    for index, (before_agreed, agreed) in enumerate(zip(eager.agreed, compiled.agreed, strict=False)):
        if before_agreed and not agreed:
            found.append(_another(f"comparison[{index}]", mismatch="fails compiled alone"))
    ends = [run.ended or f"status {run.status}" for run in (eager, compiled)]
    if not _end_the_same(eager, compiled) and not any(o.raised for o in found):
        found.append(_another("end[0]", mismatch=f"{ends[1]} instead of {ends[0]}"))
    different = differing(eager, compiled, lines)
    found += [_another(f"{LINE}{n}]", mismatch=differing_line(n, eager, compiled)) for n in different]
    return tuple(replace(output, index=index) for index, output in enumerate(found))


def differing_places(eager: PlainRun, compiled: PlainRun, criterion: Criterion) -> frozenset[str]:
    """The paths of what differs besides printed lines: values of calls, exceptions, comparisons, the end."""
    outputs = outputs_of(eager, compiled)
    return frozenset(output.path for output in outputs if criterion.divergence(output) is not None)


def is_exact(compiled: PlainRun) -> bool:
    """Whether all values of all calls of a run were seen, and are bit-equal to eager's."""
    outputs = [output for call in compiled.calls for output in call.outputs]
    same = all(not o.n_diff and Criterion().divergence(o) is None for o in outputs)
    compared = bool(outputs) or any(call.same for call in compiled.calls)
    return compared and same and not any(call.unseen or call.raised for call in compiled.calls)


def _another(path: str, mismatch: str | None = None, raised: Raised | None = None) -> OutputMeasurement:
    return OutputMeasurement(0, path, "", (), 1, alias_mismatch=mismatch, raised=raised)


def _first_of(reason: Reason) -> Reason:
    """The first output that diverges, and how many others do."""
    if not isinstance(reason, Together):
        return reason
    first, *more = reason.parts
    return AndMore(first, len(more))


def _first_that_fails(eager: Sequence[bool], compiled: Sequence[bool]) -> int | None:
    pairs = enumerate(zip(eager, compiled, strict=False))
    return next((i for i, (before, now) in pairs if before and not now), None)
