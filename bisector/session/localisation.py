"""Where the divergence arises and where it grows: the compiled run followed node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bisector.core.case import WHOLE, Case
from bisector.core.followed import Followed, followed_graph
from bisector.core.model import Candidate, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.protocol import Failed, RunTrace
from bisector.core.shares import Shares
from bisector.core.trace import GRADIENT, Reach, Trace, amplifier, origin

from .study import Study

_DEFAULT = Candidate()
UNTRACED = "the origin and the amplifier are not established"


def follow(study: Study, case: Case, default: ProbeResult) -> Followed:
    """Follow the default compile of a case, which `default` measured.

    Returning a value can keep the compiler from what makes the difference (a product that is stored is not
    contracted with the sum that reads it), so the graph that is followed must diverge as the case does; else
    the values that the compiler keeps to itself are left out, once.
    """
    paths = followable(default)
    if default.measurement.raises:
        return _nothing("one of the two runs raises, and has no values")
    reasons = []
    for asked in _requests(study, case, default):
        trace, reason = _ask(study, asked)
        if trace is not None:
            graph = followed_graph(study.describe(case), trace)
            return replace(_found(trace, paths, asked.left_out), graph=graph)
        reasons.append(reason)
    return _nothing(reasons[0])


def next_request(study: Study, case: Case, default: ProbeResult) -> RunTrace | None:
    """The first that `follow` will ask and that has no answer yet."""
    for asked in _requests(study, case, default):
        if not study.lab.knows(asked):
            return asked
        if _ask(study, asked)[0] is not None:
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


def _nothing(reason: str) -> Followed:
    return Followed(notes=(f"{UNTRACED}: {reason}",))


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


def _ask(study: Study, asked: RunTrace) -> tuple[Trace | None, str]:
    answer = study.lab.ask(asked)
    if isinstance(answer, Failed):
        return None, answer.reason
    if study.judged(answer.measurement, asked.about.case).outcome is not Outcome.FAIL:
        return None, "with its intermediate values returned the compiled program does not diverge in this way"
    return answer.trace, ""


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
    notes = []
    hidden = [n.name for n in nodes if n.name in left_out and not n.seen]
    if hidden and begins is not None:
        names = ", ".join(f"`{name}`" for name in hidden)
        notes.append(
            f"not materialized by the compiled program: {names}; an error there appears in what reads it"
        )
    if begins is None:
        return _nothing("no node differs from eager on equal inputs")
    return Followed(trace, None, begins, grows, tuple(notes))
