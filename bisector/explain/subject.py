"""From the recorded calls to the one that diverges, with its verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from bisector.core.accuracy import beneath_tolerance, may_be_beneath_tolerance
from bisector.core.backends import INDUCTOR
from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.evidence import NO_REFERENCE, Evidence
from bisector.core.judge import judge, severity, together
from bisector.core.model import Candidate, DivergenceKind, Measurement, ProbeResult, Signature, Tolerance
from bisector.core.notes import (
    CallName,
    HeldAtItsSize,
    NoReference,
    Note,
    OneOfSeveralCalls,
    Reported,
    ScriptEnded,
    SeveralTolerances,
)
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.core.printed import PrintedLine
from bisector.core.probe_reasons import NothingToCompare
from bisector.core.protocol import Failed, Request, RunCalls, RunVerdict
from bisector.core.reasons import Message
from bisector.core.recorded import Recorded, RecordedCall
from bisector.core.verdict import Rule, Verdict, VerdictClass
from bisector.errors import BadOption

from ..subject.targets import source_of
from .criteria import criterion_of_outputs, held_at_their_size
from .divergence import DivergingCall, DivergingScript, Other, verdict_of_call
from .run import Session
from .study import Study, measured


def choose(session: Session) -> DivergingCall:
    """The recorded call that diverges worst, or the first of all where none does.

    Raises BadOption when --entry names nothing that was recorded, or --call counts too far.
    """
    hello, study_of = session.lab.hello(), session.study
    calls = _selected(hello, session.options, session.wanted)
    others: tuple[Other, ...] = ()
    if len(calls) > 1:
        results = _looked_at(calls, study_of)
        calls = sorted(calls, key=lambda call: _worst_first(results[call.index]))
        others = tuple(Other(c, results[c.index]) for c in calls[1:] if _fails(results[c.index]))
        if not any(map(_fails, results.values())):
            calls = [_small_call(calls, results, study_of) or calls[0]]
    call = calls[0]
    study = study_of(call)
    study.lab.ahead(session.foreseen(study, call))
    evidence = _evidence(study)
    criterion = criterion_of_outputs(session.options, call, study.criterion, evidence.default)
    small = beneath_tolerance(evidence, criterion)
    study = replace(study, criterion=held_at_their_size(criterion, by_path=small))
    verdict = verdict_of_call(evidence, study, call)
    if verdict.rule is Rule.EVERY_RUN:
        verdict = replace(verdict, signatures=_of_any_run(verdict.signatures))
        study = replace(study, runs=RUNS_OF_VARYING)
    study = _held_to(_without_excused(study, evidence, verdict), evidence, verdict.signatures)
    diverging = {s.path for s in verdict.signatures}
    outputs = [(o.path, o.dtype) for o in evidence.default.outputs if o.path in diverging]
    study = replace(study, small=study.criterion.for_reduced_graph(outputs))
    several = _several_tolerances(study, evidence.default, diverging)
    reported = map(_reported, evidence.notes)
    notes = (*reported, *at_their_size(small), *several, *_notes(hello, call, verdict, others))
    return DivergingCall(call, study, evidence, verdict, notes, others)


MOST_SMALL = 4  # calls that agree, of which is asked what rounding makes of their small values


def _small_call(
    calls: Sequence[RecordedCall],
    results: Mapping[int, ProbeResult],
    study_of: Callable[[RecordedCall], Study],
) -> RecordedCall | None:
    """The first call that agrees because the default tolerance is larger than its values, if there is one."""
    studies = ((call, study_of(call)) for call in calls)
    small = (
        (call, study)
        for call, study in studies
        if may_be_beneath_tolerance(results[call.index].measurement.outputs, study.criterion)
    )
    asked = islice(small, MOST_SMALL)
    found = (call for call, study in asked if beneath_tolerance(_evidence(study), study.criterion))
    return next(found, None)


def whole_script(
    session: Session,
    criterion: Criterion,
    verdict: Verdict | None = None,
    rung: str = INDUCTOR,
    lines: tuple[PrintedLine, ...] = (),
) -> DivergingScript:
    """The script in the place of a call. verdict: what its own runs say; None where they agree. rung, lines:
    as of DivergingScript."""
    options = session.options
    lab = session.program_lab("program", rung, lines)
    call = lab.hello().calls[0]
    study = Study(
        lab, call.index, criterion, criterion, repeat=options.repeat, exhausted=session.clock.exhausted,
        counts=session.counts, width=lab.jobs,
    )  # fmt: skip
    evidence = _evidence(study)
    measured_here = verdict_of_call(evidence, study, call)
    study = _held_to(study, evidence, measured_here.signatures)
    # The outputs of a smaller case are those of the whole.
    study = replace(study, small=study.criterion)
    source, given = source_of(session.target.path), verdict or measured_here
    return DivergingScript(call, study, evidence, given, rung=rung, source=source, lines=lines)


def at_their_size(small: Mapping[str, tuple[Tolerance, ...]]) -> list[Note]:
    """A note on outputs, or dtypes, that are smaller than the default absolute tolerance."""
    if not small:
        return []
    name, ((_, own), *_) = next(iter(small.items()))
    return [HeldAtItsSize(name, own)]


def _reported(text: str) -> Note:
    """What a note of the evidence is of."""
    if text.startswith(NO_REFERENCE):
        return NoReference(text.removeprefix(NO_REFERENCE))
    return Reported(Message(text))


def _evidence(study: Study) -> Evidence:
    answer = study.lab.ask(RunVerdict(study.about(WHOLE)))
    return Evidence.without(measured(answer)) if isinstance(answer, Failed) else answer


def _without_excused(study: Study, evidence: Evidence, verdict: Verdict) -> Study:
    """The study of what the verdict is about: outputs that undefined values explain may differ under any
    repair."""
    differing = {s.path for s in judge(evidence.default, study.criterion).signatures}
    excused = differing - {s.path for s in verdict.signatures}
    if not verdict.signatures or not excused:
        return study
    return replace(study, criterion=study.criterion.without(excused))


def _held_to(study: Study, evidence: Evidence, signatures: tuple[Signature, ...]) -> Study:
    """The study of a divergence with these signatures."""
    criterion = study.criterion.failing_tolerance_first(evidence.default.outputs)
    # Where something else diverges too, a repair of that need not mend the strides.
    by_strides = {s.kind for s in signatures} == {DivergenceKind.STRIDE}
    return replace(study, criterion=replace(criterion, strides=by_strides), signatures=signatures)


# Of each program, where its runs differ from each other: one that is right by luck is not taken for a repair.
RUNS_OF_VARYING = 4
_BY_VALUES = (DivergenceKind.VALUE, DivergenceKind.NONFINITE)


def _of_any_run(signatures: Sequence[Signature]) -> tuple[Signature, ...]:
    """Another run of a program that reads whatever is in memory may give numbers where this one gives NaN."""
    found = [
        replace(signature, kind=kind)
        for signature in signatures
        for kind in (_BY_VALUES if signature.kind in _BY_VALUES else (signature.kind,))
    ]
    return tuple(dict.fromkeys(found))


def _selected(hello: Recorded, options: Options, within: int | None) -> list[RecordedCall]:
    """within: the call of a compiled function whose graphs are looked at; None: all of them."""
    if options.call is not None:
        return [_call(hello, options.call)]
    if within is not None:
        return [c for c in hello.calls if c.within == within] or list(hello.calls)
    entry = options.entry
    if entry is None or not hello.scripted:  # a module's entry was chosen when it was loaded
        return list(hello.calls)
    calls = [c for c in hello.calls if c.entry == entry]
    if not calls:
        names = ", ".join(dict.fromkeys(c.entry for c in hello.calls))
        raise BadOption(f"--entry {entry}: the script calls {names}; name one of these")
    return calls


def _call(hello: Recorded, number: int) -> RecordedCall:
    if number > len(hello.calls):
        recorded = f"{len(hello.calls)} compiled call{'s were' if len(hello.calls) > 1 else ' was'} recorded"
        raise BadOption(f"--call {number}: {recorded}; name one by its place, from 1")
    return hello.calls[number - 1]


def _looked_at(
    calls: Sequence[RecordedCall], study_of: Callable[[RecordedCall], Study]
) -> dict[int, ProbeResult]:
    """The default compile of each call, by its index, under a criterion of its own. Calls of one graph under
    equal settings share a compile, unless a run of one of them raises."""
    studies = {call.index: study_of(call) for call in calls}
    lab = studies[calls[0].index].lab
    groups, found = _of_one_compile(calls, studies), dict[int, ProbeResult]()
    while groups:
        asked = [_look(group, studies) for group in groups]
        answers: Iterator[Any] = iter(lab.ask_all([request for requests in asked for request in requests]))
        failed = list[list[RecordedCall]]()
        for group, requests in zip(groups, asked, strict=True):
            got = list(islice(answers, len(requests)))
            if len(group) > 1 and isinstance(got[0], Failed):
                failed += [[call] for call in group]
            elif len(group) > 1:
                pairs = zip(group, got[0].measurements, strict=True)
                found |= {call.index: studies[call.index].judged(one) for call, one in pairs}
            else:
                study = studies[group[0].index]
                found[group[0].index] = together([study.judged(one) for one in got])
        groups = failed
    return found


def _of_one_compile(
    calls: Sequence[RecordedCall], studies: Mapping[int, Study]
) -> list[list[RecordedCall]]:
    """The calls, those of one graph together; each alone where several trials are asked for."""
    alike = defaultdict[str, list[RecordedCall]](list)
    for call in calls:
        once = studies[call.index].repeat == 1
        compiled = call.graph, call.backward, sorted(call.settings.items()), 0 if once else call.index
        alike[repr(compiled)].append(call)
    return list(alike.values())


def _look(group: Sequence[RecordedCall], studies: Mapping[int, Study]) -> list[Request[Any]]:
    study = studies[group[0].index]
    if len(group) > 1:
        return [RunCalls(tuple(call.index for call in group), study.train)]
    return [*study.requests([(Candidate(), WHOLE)])]


def _fails(result: ProbeResult) -> bool:
    return result.outcome is Outcome.FAIL


def _worst_first(result: ProbeResult) -> tuple[int, int, float]:
    """Where equal, the order of the script stays. A graph that gives nothing, such as the rest of a function
    that warns, comes after those that agree."""
    ranks = {Outcome.FAIL: 0, Outcome.UNRESOLVED: 1, Outcome.PASS: 2}
    kind, size = severity(result) if _fails(result) else (0, 0.0)
    return 3 if isinstance(result.reason, NothingToCompare) else ranks[result.outcome], -kind, -size


def _several_tolerances(study: Study, default: Measurement, diverging: Collection[str]) -> list[Note]:
    """Of outputs that diverge and that the script compares more than once; in every probe all hold."""
    notes: list[Note] = []
    for output in default.outputs:
        held = study.criterion.tolerances(output.path, output.dtype)
        if output.path in diverging and len(held) > 1:
            notes.append(SeveralTolerances(output.path, tuple(held)))
    return notes


def _notes(hello: Recorded, call: RecordedCall, verdict: Verdict, others: Sequence[Other]) -> list[Note]:
    notes: list[Note] = [Reported(Message(text)) for text in hello.notes]
    if len(hello.calls) > 1 and verdict.kind is not VerdictClass.AGREES:
        notes.append(_place(hello, call, others))
    if hello.ended:
        notes.append(ScriptEnded(hello.ended))
    return notes


def _place(hello: Recorded, call: RecordedCall, others: Sequence[Other]) -> Note:
    """Which of the script's calls is examined, and which is the first that differs on eager's inputs."""
    recorded = len(hello.calls)
    first = min((other.call for other in others), key=lambda one: one.index, default=call)
    earlier = _named(first) if first.index < call.index else None
    return OneOfSeveralCalls(recorded + hello.skipped_calls, recorded, _named(call), earlier)


def _named(call: RecordedCall) -> CallName:
    return CallName(call.index + 1, call.entry)
