"""Which step of a traced function makes a script differ: asked where tracing itself is to blame, once that is
confirmed. A step is left to Python by a graph break, so that what repairs is a place; what it becomes in the
compiled code says why.
"""

from __future__ import annotations

from bisector.core.case import Case
from bisector.core.confirmed import Confirmed
from bisector.core.decision import DecisionId
from bisector.core.kinds import CONFIG, FRAME, STEP
from bisector.core.model import ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.protocol import Failed, ListSteps
from bisector.core.search.minimal import Inverted, minimal_set
from bisector.core.steps import FoundSteps, Needed, Step

from .questions import Denied
from .rounds import in_rounds
from .study import Study

MOST_STEPS = 3  # that are told; more are no place
MOST_ALONE = 24  # steps that are tried one by one before any bisection


def find_steps(study: Study, case: Case, confirmed: Confirmed) -> FoundSteps | None:
    """case: the one that was searched. None where tracing is not to blame, or no few steps of it are."""
    frames = _to_blame(confirmed)
    if frames is None or STEP.name in study.hooks_off or study.exhausted() is not None:
        return None
    found = study.lab.ask(ListSteps(study.about(case)))
    listed = () if isinstance(found, Failed) else found.steps
    if len(listed) > MOST_ALONE:
        listed = tuple(step for step in listed if any(_is_in(step.id, frame) for frame in frames)) or listed
    return _told(study, case, listed) if listed else None


def _to_blame(confirmed: Confirmed) -> list[DecisionId] | None:
    """The functions whose tracing is a confirmed cause or repairs; none where that is a setting of Dynamo's;
    None where it is something else."""
    sets = confirmed.proved_causes or confirmed.proved_repairs
    members = [member for found in sets for member in found.members]
    if not members or any(member.kind not in (FRAME.name, CONFIG.name) for member in members):
        return None
    return [member for member in members if member.kind == FRAME.name]


def _is_in(step: DecisionId, frame: DecisionId) -> bool:
    return step.detail == frame.detail.rpartition(".")[2] and _file(step) == _file(frame)


def _file(decision: DecisionId) -> str:
    return decision.node.partition(":")[0]


@in_rounds
def _told(study: Study, case: Case, steps: tuple[Step, ...]) -> FoundSteps | None:
    """Of these steps the fewest that must be left to Python; of several that repair by themselves the last
    that is traced, or all where it takes all of them to diverge, such as a view and a write into it. A graph
    cannot break within what Dynamo traces as a whole (a generator, the forward of an autograd.Function): a
    step of that repairs because the call of all of it, which is traced after it, is left to Python."""
    passing = _one_by_one(study, case, steps)
    each = [step for step, result in passing if _is_still_traced(result, step)]
    needed = tuple(each[-1:]) or _together(study, case, steps)
    if not needed:
        return None
    alone = _alone(study, case, steps, needed)
    apart = tuple(step for step in each if not any(_is_within(step, one, steps) for one in each))
    by_all = alone is Outcome.PASS and 1 < len(apart) <= MOST_STEPS
    if by_all and _alone(study, case, steps, apart) is Outcome.FAIL:
        return FoundSteps(apart, Outcome.FAIL, needed=Needed.ANY)
    # To leave one to Python breaks the graph around the step that it is within.
    inside = tuple(step for step, _ in passing if _is_within(step, needed[0], steps))
    return FoundSteps(needed, alone, inside)


def _is_within(step: Step, other: Step, steps: tuple[Step, ...]) -> bool:
    """Whether Dynamo comes to a step by the other one."""
    around = {one.id: one.within for one in steps}
    met, at = set[DecisionId](), step.within
    while at is not None and at != other.id and at not in met:  # a function may call itself
        met.add(at)
        at = around.get(at)
    return at == other.id


def _one_by_one(study: Study, case: Case, steps: tuple[Step, ...]) -> list[tuple[Step, ProbeResult]]:
    """Those that agree with eager where they alone are left to Python."""
    if len(steps) > MOST_ALONE:
        return []
    results = study.probe_all([(study.deny(frozenset({step.id})), case) for step in steps])
    pairs = zip(steps, results, strict=True)
    return [(step, result) for step, result in pairs if result.outcome is Outcome.PASS]


def _is_still_traced(result: ProbeResult, step: Step) -> bool:
    """Whether anything of the function of a step is; nothing is behind a graph break in a loop."""
    traced = (d.id for d in result.measurement.decisions if d.kind == FRAME.name)
    return any(_is_in(step.id, frame) for frame in traced)


def _together(study: Study, case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The fewest that repair together; none where that takes many."""
    ids, denied = [step.id for step in steps], Denied(study, case)
    if len(ids) < 2 or denied(frozenset(ids)) is not Outcome.PASS:
        return ()
    members = minimal_set(ids, Inverted(denied)).members
    needed = tuple(step for step in steps if step.id in members)
    return needed if len(needed) <= MOST_STEPS else ()


def _alone(
    study: Study, case: Case, steps: tuple[Step, ...], needed: tuple[Step, ...]
) -> Outcome:
    """The outcome where all other steps of their functions are left to Python."""
    others = frozenset(
        step.id for step in steps if step not in needed and any(_same(step.id, one.id) for one in needed)
    )
    return study.denied(others, case).outcome if others else Outcome.FAIL


def _same(step: DecisionId, other: DecisionId) -> bool:
    """Whether they are of one function."""
    return step.group == other.group and _file(step) == _file(other)
