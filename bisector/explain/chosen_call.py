"""Which call is studied, and what the script itself shows where no recorded call diverges.

A call is replayed on the inputs that it has in eager. What arises only between graphs, from call to call or
outside of every graph does not show there; then the script is asked, in processes of its own.
"""

from __future__ import annotations

from dataclasses import replace

from bisector.core import progress as steps
from bisector.core.accuracy import beneath_tolerance_in_calls
from bisector.core.criterion import Criterion
from bisector.core.evidence import FALLBACK_RANDOM
from bisector.core.judge import judge
from bisector.core.notes import (
    AgreesWithSeeds,
    DivergesWithSomeSeeds,
    DrawnAlike,
    NoGraph,
    Note,
    UnjudgedWithSeed,
)
from bisector.core.outcome import Outcome
from bisector.core.reasons import Reason
from bisector.core.recorded import Recorded
from bisector.core.script_reasons import CutShort, FailsInEager, LaterCallsUnseen
from bisector.core.script_verdict import DRAWS_ALIKE, NOT_ASKED, script_verdict
from bisector.core.shown import ScriptResult
from bisector.core.verdict import VerdictClass
from bisector.errors import BadTarget
from bisector.subject.targets import TargetKind

from . import environment
from .criteria import (
    criterion_of_call,
    criterion_of_comparisons,
    criterion_of_script,
    held_at_their_size,
)
from .divergence import Divergence
from .finding import Seen
from .run import Session
from .subject import at_their_size, choose, whole_script
from .witness import Script, Witness, script_of


def chosen_call(session: Session) -> Seen:
    """A script that sets no seed may agree with one and diverge with another."""
    seen = _seen(session)
    agrees = seen.witness is not None and seen.witness.shown.outcome is Outcome.PASS
    if not agrees or not session.lab.hello().unseeded:
        return seen
    first, more = session.seed, (session.seed + 1, session.seed + 2)
    session.progress("capture", steps.OtherSeeds(more))
    outcomes = script_of(session).by_seed(more, seen.criterion)
    diverging = [seed for seed, outcome in outcomes.items() if outcome is Outcome.FAIL]
    unknown = [seed for seed, outcome in outcomes.items() if outcome is Outcome.UNRESOLVED]
    if not diverging:
        return _noted(seen, UnjudgedWithSeed(unknown[0]) if unknown else AgreesWithSeeds(more))
    session.begin_again(f"seed {diverging[0]}", seed=diverging[0])
    some = DivergesWithSomeSeeds(len(diverging), (first, *more), diverging[0])
    return _noted(_seen(session), some)


def _noted(seen: Seen, note: Note) -> Seen:
    return replace(seen, chosen=replace(seen.chosen, notes=(*seen.chosen.notes, note)))


def _seen(session: Session) -> Seen:
    """What is seen with the seed of the session."""
    hello = session.lab.hello()
    if hello.environment:
        session.progress("capture", steps.AgainWith(sorted(hello.environment)))
        session.begin_again("again", environment=hello.environment)
        hello = session.lab.hello()
    if environment.has_gpu() and any("cpu" in call.devices for call in hello.calls):
        environment.check_compiler()
    if hello.nothing is not None:
        return _without_calls(session, hello, hello.nothing)
    chosen = choose(session)
    if (again := _differs_beneath(session, chosen, hello)) is not None:
        session.progress("capture", again)
        session.begin_again("drawing alike", config=dict.fromkeys(DRAWS_ALIKE, True))
        hello = session.lab.hello()
        chosen = choose(session)
        chosen = replace(chosen, notes=(*chosen.notes, DrawnAlike()))
    unsteady = chosen.verdict.kind is VerdictClass.NONDETERMINISTIC
    if unsteady or _diverges(chosen):
        return Seen(chosen)
    if not is_a_script(session, hello):
        return Seen(chosen, unseen=_unseen(hello) if session.options.call is None else None)
    session.progress("capture", steps.NoCallDiverges())
    seen = seen_in_script(session, chosen)
    diverging = seen.witness.shown.call if seen.witness is not None else None
    if diverging in hello.skipped_within:
        session.begin_again(f"call {diverging}", wanted=diverging)
        later = choose(session)
        if _diverges(later):
            return Seen(later)
    return seen


def seen_in_script(session: Session, chosen: Divergence) -> Seen:
    """What the script's own runs show. chosen: the call that was looked at before."""
    program, criterion = script_of(session), held_to_as_a_script(session, chosen)
    witness = program.witness(criterion)
    if witness.shown.outcome is Outcome.PASS and (small := _beneath_tolerance(witness, criterion)):
        found = _seen_at_their_size(chosen, program, small)
        return Seen(chosen, witness, criterion) if found is None else found
    if not witness.shown.diverges:
        return Seen(chosen, witness, criterion)
    calls = session.lab.hello().calls
    exact = criterion_of_comparisons(session.options, calls, chosen.study.criterion)
    if witness.shown.call is None and exact is not None:
        by_call = program.witness(exact)  # judged anew, not run
        if by_call.shown.call is not None:
            witness, criterion = by_call, exact
    again = program.again(criterion)
    if again.outcome is not Outcome.PASS:
        return _unsteady(chosen, program, witness, criterion, again)
    return _looked_into(chosen, program, witness, criterion, again)


def _beneath_tolerance(witness: Witness, criterion: Criterion) -> Criterion | None:
    """The criterion under which values that are smaller than the default tolerance are held to their own
    size; None where none of them differs by it."""
    calls = (call.outputs for call in witness.compiled.calls)
    small = beneath_tolerance_in_calls(calls, criterion)
    return held_at_their_size(criterion, by_dtype=small) if small else None


def _seen_at_their_size(chosen: Divergence, program: Script, criterion: Criterion) -> Seen | None:
    """A script whose small values differ by more than rounding: None where they do not, or that is not
    known."""
    witness = program.witness(criterion)
    again = program.again(criterion) if witness.shown.diverges else None
    if again is None or again.outcome is not Outcome.PASS:
        return None
    seen = _looked_into(chosen, program, witness, criterion, again)
    worse = script_verdict(seen.runs(witness), criterion).kind is VerdictClass.COMPILED_WORSE
    notes = at_their_size(criterion.by_dtype)
    return replace(seen, chosen=replace(chosen, notes=(*chosen.notes, *notes))) if worse else None


def _looked_into(
    chosen: Divergence, program: Script, witness: Witness, criterion: Criterion, again: ScriptResult
) -> Seen:
    """A divergence of the script with its layer, and what eager gives on equal inputs and on equal draws."""
    as_if_compiling = program.as_if_compiling(witness, criterion)
    if as_if_compiling is not None and as_if_compiling.outcome is Outcome.PASS:
        return Seen(chosen, witness, criterion, again, as_if_compiling=as_if_compiling)
    equal = program.equal_inputs(witness, criterion)
    same_random = program.with_same_random(criterion) if program.draws(witness) else None
    witness = program.with_backend(witness, criterion)
    return Seen(chosen, witness, criterion, again, equal, same_random, as_if_compiling)


def _unsteady(
    chosen: Divergence, program: Script, witness: Witness, criterion: Criterion, again: ScriptResult
) -> Seen:
    """A divergence of a script of which two runs with compilation off differ, or that could not be run
    twice."""
    if again.outcome is not Outcome.FAIL:
        return Seen(chosen, witness, criterion, again)
    steady, equal = program.steady(witness, criterion), NOT_ASKED
    if witness.shown.call is not None:
        equal = program.equal_inputs(witness, criterion)
    return Seen(chosen, witness, criterion, again, equal, steady=steady)


def _unseen(hello: Recorded) -> Reason | None:
    """Why it is not known that the target agrees, though its recorded calls do."""
    if hello.eager_disagrees:
        return FailsInEager()
    if hello.skipped_calls:
        return LaterCallsUnseen(hello.skipped_calls)
    return CutShort(hello.cut_short) if hello.cut_short else None


def _without_calls(session: Session, hello: Recorded, problem: str) -> Seen:
    """Dynamo may have failed, or left everything to Python: what the script shows. Raises BadTarget where
    nothing compiled is ever called."""
    if not is_a_script(session, hello):
        raise BadTarget(problem)
    program, criterion = script_of(session), criterion_of_call(session.options, {})
    witness = program.witness(criterion)
    if not witness.compiled.calls and not witness.shown.diverges:
        raise BadTarget(problem)
    again = None if witness.eager.unfinished else program.again(criterion)
    chosen: Divergence = whole_script(session, criterion)
    if not witness.shown.diverges or again is None or again.outcome is not Outcome.PASS:
        chosen = replace(chosen, notes=(*chosen.notes, NoGraph()))
        if witness.shown.diverges and again is not None:
            return _unsteady(chosen, program, witness, criterion, again)
        return Seen(chosen, witness, criterion, again)
    return _looked_into(chosen, program, witness, criterion, again)


# Classes of a call that draws, which say nothing of what else is wrong with it.
_OWN_DRAWS_HIDE = (VerdictClass.NONDETERMINISTIC, VerdictClass.UNRESOLVED)


def _differs_beneath(
    session: Session, chosen: Divergence, hello: Recorded
) -> steps.AgainDrawingAlike | None:
    """What does not agree also where both draw the same random numbers, the call or else the script; None
    where all does, or nothing is drawn."""
    if chosen.call.settings.get(FALLBACK_RANDOM) is True:  # they do already
        return None
    same_random = chosen.evidence.alike
    if same_random is not None and chosen.verdict.kind in _OWN_DRAWS_HIDE:
        fails = judge(same_random, chosen.study.criterion).outcome is Outcome.FAIL
        return steps.AgainDrawingAlike(is_script=False) if fails else None
    if chosen.verdict.kind is not VerdictClass.RANDOM or not is_a_script(session, hello):
        return None
    whole = script_of(session).with_same_random(held_to_as_a_script(session, chosen))
    return None if whole.outcome is Outcome.PASS else steps.AgainDrawingAlike(is_script=True)


def _diverges(chosen: Divergence) -> bool:
    return chosen.default.outcome is Outcome.FAIL


def is_a_script(session: Session, hello: Recorded) -> bool:
    """Whether the target compiles something itself, under no settings but its own."""
    options = session.options
    chosen = options.entry is not None or options.call is not None
    ours = chosen or options.train is not None or options.dynamic is not None
    return hello.scripted and not ours and not options.config and session.target.kind is TargetKind.SCRIPT


def held_to_as_a_script(session: Session, chosen: Divergence) -> Criterion:
    """The criterion of the script whose call was chosen."""
    return criterion_of_script(session.options, session.lab.hello().calls, chosen.study.criterion)
