"""Which call is studied, and what the script itself shows where no recorded call diverges.

A call is replayed on the inputs that it has in eager. What arises only between graphs, from call to call or
outside of every graph does not show there; then the script is asked, in processes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bisector.core.judge import Criterion, judge
from bisector.core.model import Outcome
from bisector.core.protocol import Recorded, RecordedCall, Request
from bisector.core.verdict import VerdictClass
from bisector.errors import BadTarget
from bisector.subject.targets import TargetKind

from .program_search import whole_program
from .run import Session
from .study import Study
from .subject import Chosen, choose, criterion_for
from .witness import Witness, program_of

ALIKE = "inductor.fallback_random"
BENEATH = (
    "the program draws random numbers, which torch.compile draws otherwise; this is what differs beneath, "
    "with fallback_random=True"
)
EVERY_SEED = "with seeds {} and {} it agrees too"
SOME_SEEDS = "the script sets no seed: it diverges with {} of {} seeds ({} to {}); this is seed {}"
NO_GRAPH = "no compiled call comes to a graph: Dynamo leaves all of it to Python"
Beside = Callable[[Study, RecordedCall], Sequence[Request[Any]]]


@dataclass(frozen=True)
class Seen:
    """The call under study, and the script's own runs where they were asked.

    criterion: what the script is held to. steady: whether two runs with compilation off agree.
    """

    chosen: Chosen
    witness: Witness | None = None
    criterion: Criterion = field(default_factory=Criterion)
    steady: bool = True


def chosen_call(session: Session, beside: Beside) -> Seen:
    """beside: see `choose`. A script that sets no seed may agree with one and diverge with another."""
    seen = _seen(session, beside)
    if seen.witness is None or seen.witness.shown.diverges or not session.lab.hello().unseeded:
        return seen
    first, more = session.seed, (session.seed + 1, session.seed + 2)
    said = "they agree; the script sets no seed, and is run with seeds {} and {} too"
    session.progress("capture", said.format(*more))
    diverging = program_of(session).diverging_seeds(more, seen.criterion)
    if not diverging:
        return _noted(seen, EVERY_SEED.format(*more))
    session.begin_again(f"seed {diverging[0]}", seed=diverging[0])
    note = SOME_SEEDS.format(len(diverging), len(more) + 1, first, more[-1], diverging[0])
    return _noted(_seen(session, beside), note)


def _noted(seen: Seen, note: str) -> Seen:
    return replace(seen, chosen=replace(seen.chosen, notes=(*seen.chosen.notes, note)))


def _seen(session: Session, beside: Beside) -> Seen:
    """What is seen with the seed of the session."""
    hello = session.lab.hello()
    if hello.environment:
        names = ", ".join(sorted(hello.environment))
        session.progress("capture", f"again with {names}, which the script sets before it imports torch")
        session.begin_again("again", environment=hello.environment)
        hello = session.lab.hello()
    if hello.nothing is not None:
        return _without_calls(session, hello, hello.nothing)
    chosen = choose(session.lab, session.options, session.study, beside)
    if _diverges_beneath(chosen):
        session.progress("capture", "again with fallback_random=True, under which it diverges too")
        session.begin_again("drawing alike", config={ALIKE: True})
        hello = session.lab.hello()
        chosen = choose(session.lab, session.options, session.study, beside)
        chosen = replace(chosen, notes=(*chosen.notes, BENEATH))
    unsteady = chosen.verdict.kind is VerdictClass.NONDETERMINISTIC
    if unsteady or _diverges(chosen) or not is_a_script(session, hello):
        return Seen(chosen)
    session.progress("capture", "no captured call diverges; running the script with and without compilation")
    program, criterion = program_of(session), criterion_of_program(session, chosen)
    witness = program.witness(criterion)
    if not witness.shown.diverges:
        return Seen(chosen, witness, criterion)
    if hello.skipped_calls and witness.shown.call is not None:
        session.begin_again(f"call {witness.shown.call}", wanted=witness.shown.call)
        later = choose(session.lab, session.options, session.study, beside)
        if _diverges(later):
            return Seen(later)
    if not program.is_steady(criterion):
        return Seen(chosen, witness, criterion, steady=False)
    return Seen(chosen, program.with_backend(witness, criterion), criterion)


def _without_calls(session: Session, hello: Recorded, problem: str) -> Seen:
    """Dynamo may have failed, or left everything to Python: what the script shows. Raises BadTarget where
    nothing compiled is ever called."""
    if not is_a_script(session, hello):
        raise BadTarget(problem)
    program, criterion = program_of(session), criterion_for(session.options, {})
    witness = program.witness(criterion)
    if not witness.compiled.calls and not witness.shown.diverges:
        raise BadTarget(problem)
    steady = program.is_steady(criterion)
    chosen = replace(whole_program(session, criterion), unequal=())
    if not witness.shown.diverges or not steady:
        chosen = replace(chosen, notes=(*chosen.notes, NO_GRAPH))
        return Seen(chosen, witness, criterion, steady)
    return Seen(chosen, program.with_backend(witness, criterion), criterion)


def _diverges_beneath(chosen: Chosen) -> bool:
    """Whether eager and compiled differ also where both draw the same random numbers."""
    alike = chosen.evidence.alike
    if alike is None or chosen.verdict.kind is not VerdictClass.NONDETERMINISTIC:
        return False
    return judge(alike, chosen.study.criterion).outcome is Outcome.FAIL


def _diverges(chosen: Chosen) -> bool:
    return judge(chosen.evidence.default, chosen.study.criterion).outcome is Outcome.FAIL


def is_a_script(session: Session, hello: Recorded) -> bool:
    """Whether the target compiles something itself, under no settings but its own."""
    options = session.options
    chosen = options.entry is not None or options.call is not None
    ours = chosen or options.train is not None or options.dynamic is not None
    return hello.scripted and not ours and not options.config and session.kind is TargetKind.SCRIPT


def criterion_of_program(session: Session, chosen: Chosen) -> Criterion:
    """The script's own tolerances belong to outputs of graphs; its comparisons speak for themselves here, so
    of several the one that allows most of a value of 1 holds for what it does not compare."""
    criterion, hello = chosen.study.criterion, session.lab.hello()
    own = [pair for call in hello.calls for pairs in call.tolerances.values() for pair in pairs]
    if not own or session.options.rtol is not None or session.options.tolerances is not None:
        return criterion
    return Criterion(by_path={"*": (max(own, key=sum),)}, strides=criterion.strides, source=criterion.source)
