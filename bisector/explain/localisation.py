"""Where the divergence arises and where it grows: the compiled run followed node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bisector.core.case import WHOLE, Case
from bisector.core.followed import Followed, followed_graph
from bisector.core.model import Candidate, ProbeResult
from bisector.core.notes import Note, Reported
from bisector.core.outcome import Outcome
from bisector.core.protocol import Failed, RunTrace
from bisector.core.reasons import Message
from bisector.core.search_notes import (
    AgreesWhenWatched,
    NothingArises,
    NotMaterialized,
    RaisesInstead,
    Untraced,
)
from bisector.core.shares import Shares
from bisector.core.trace import GRADIENT, Reach, Trace, amplifier, origin

from .study import Study

_DEFAULT = Candidate()


def follow(study: Study, case: Case, default: ProbeResult) -> Followed:
    """Follow the default compile of a case, which `default` measured.

    Returning a value can keep the compiler from what makes the difference (a product that is stored is not
    contracted with the sum that reads it), so the graph that is followed must diverge as the case does; else
    the values that the compiler keeps to itself are left out, once.
    """
    paths = followable(default)
    if default.measurement.raises:
        return _nothing(RaisesInstead())
    reasons: list[Note] = []
    for asked in _requests(study, case, default):
        told = _ask(study, asked)
        if not isinstance(told, Note):
            graph = followed_graph(study.describe(case), told)
            return replace(_found(told, paths, asked.left_out), graph=graph)
        reasons.append(told)
    return _nothing(reasons[0])


def next_request(study: Study, case: Case, default: ProbeResult) -> RunTrace | None:
    """The first that `follow` will ask and that has no answer yet."""
    for asked in _requests(study, case, default):
        if not study.lab.knows(asked):
            return asked
        if not isinstance(_ask(study, asked), Note):
            return None
    return None


def _requests(study: Study, case: Case, default: ProbeResult) -> list[RunTrace]:
    """What is asked until an answer diverges as the case does."""
    reaches, attempts = _reaches(study, followable(default)), _attempts(default)
    return [request(study, case, left_out, reach=reach) for reach in reaches for left_out in attempts]


def followable(default: ProbeResult) -> list[str]:
    """The outputs, gradients and written inputs that diverge; none where one of the two runs raises."""
    return [] if default.measurement.raises else [signature.path for signature in default.signatures]


def _reaches(study: Study, paths: Sequence[str]) -> list[Reach]:
    """The gradients too, if there are any; without them, where that does not show the divergence and an
    output does: to hand out gradients changes more of what the compiler does."""
    outputs = any(not path.startswith(GRADIENT) for path in paths)
    return [study.reach, *([Reach.FORWARD] if study.reach is Reach.BACKWARD and outputs else [])]


def _nothing(why: Note) -> Followed:
    return Followed(notes=(Untraced(why),))


def _attempts(default: ProbeResult) -> list[tuple[str, ...]]:
    """Nodes to leave out: none, then the products that are contracted, or else what is recomputed."""
    decisions = default.measurement.decisions
    by_kind = {k: sorted({d.node for d in decisions if d.kind == k}) for k in ("fma", "inline")}
    kept = by_kind["fma"] or by_kind["inline"]
    return [(), tuple(kept)] if kept else [()]


def request(
    study: Study,
    case: Case,
    left_out: Sequence[str] = (),
    candidate: Candidate = _DEFAULT,
    reach: Reach | None = None,
) -> RunTrace:
    """What the lab is asked. left_out: nodes whose values are not returned. reach: else that of the study."""
    whole = case == WHOLE and candidate == _DEFAULT
    shares = study.shares if whole else Shares.NONE
    return RunTrace(study.about(case), candidate, tuple(left_out), reach or study.reach, shares)


def _ask(study: Study, asked: RunTrace) -> Trace | Note:
    """Or why there is none of the divergence."""
    answer = study.lab.ask(asked)
    if isinstance(answer, Failed):
        return Reported(Message(answer.reason))
    if study.judged(answer.measurement, asked.about.case).outcome is not Outcome.FAIL:
        return AgreesWhenWatched()
    return answer.trace


def arising(study: Study, case: Case, candidate: Candidate) -> dict[str, float] | None:
    """The nodes that give other bits than eager on equal inputs, with the error in steps of the dtype; None
    where the graph cannot be followed."""
    answer = study.lab.ask(request(study, case, candidate=candidate))
    if isinstance(answer, Failed):
        return None
    return {node.name: node.local_ulp for node in answer.trace.nodes if node.arises}


def _found(trace: Trace, paths: Sequence[str], left_out: Sequence[str]) -> Followed:
    nodes = trace.behind(paths)
    begins, grows = origin(nodes), amplifier(nodes)
    if begins is None:
        return _nothing(NothingArises())
    hidden = tuple(n.name for n in nodes if n.name in left_out and not n.seen)
    return Followed(trace, None, begins, grows, (NotMaterialized(hidden),) if hidden else ())
