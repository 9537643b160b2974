"""What makes each sort of operation differ: asked of the smallest part of a large graph in which one does.

To the bit, since what one operation adds is mostly within the tolerance. A probe of so small a part takes a
fraction of one of the whole, and what is found is then tried on the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bisector.core.case import Case
from bisector.core.clusters import pattern
from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.graphinfo import GraphInfo
from bisector.core.kinds import KINDS
from bisector.core.mechanism import Found, Mechanism
from bisector.core.model import Candidate, DivergenceKind, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reduction.regions import downstream, region
from bisector.core.trace import GRADIENT, NodeTrace, Trace

from .rounds import in_rounds
from .search_order import PLACE
from .study import Study

MOST_OPERATIONS = 8
LITTLE = 0.02  # of the difference: an operation that carries less by itself is left to the others
OUTPUT = "output["
MOST_PATTERNS = 8  # of a repair, of which each is tried without
LEVELS = 3  # calls before an operation that may leave their results unrounded, itself the first
AFTER = (1, 2, 4)  # calls from the operation on, for its gradient: that of a sum alone can be exact


TO_THE_BIT = Criterion((0.0, 0.0))


@in_rounds
def mechanisms(study: Study, info: GraphInfo, trace: Trace, paths: Sequence[str]) -> list[Mechanism]:
    """One for each sort of operation that carries something to these outputs, the largest share first.

    info: of the whole graph.
    """
    found = []
    for operation, share in _operations(trace, paths)[:MOST_OPERATIONS]:
        arising = [n for n in trace.behind(paths) if n.arises and n.operation == operation]
        largest = max(arising, key=lambda n: (n.wrong, n.local))
        names = tuple(n.name for n in arising)
        found.append(Mechanism(operation, names, share, _of_one(study, info, largest)))
    return found


def _operations(trace: Trace, paths: Sequence[str]) -> list[tuple[str, float]]:
    """The sorts of operations at which errors arise, those that carry most first."""
    arising: dict[str, float] = {}
    for node in trace.behind(paths):
        if node.arises:
            arising[node.operation] = arising.get(node.operation, 0.0) + node.local
    if trace.parts.faithful(paths):
        carried = {part.name: part.alone(paths) for part in trace.parts.operations}
        arising = {name: carried[name] for name in arising if carried.get(name, 0.0) >= LITTLE}
    return sorted(arising.items(), key=lambda pair: -pair[1])


def _of_one(study: Study, info: GraphInfo, node: NodeTrace) -> Found | None:
    """At one operation."""
    differs = (Signature(GRADIENT if node.is_gradient else OUTPUT, DivergenceKind.VALUE),)
    there = replace(study, criterion=TO_THE_BIT, small=TO_THE_BIT, signatures=differs)
    cases = list(dict.fromkeys(_around(info, node)))
    results = there.probe_all([(Candidate(), case) for case in cases])
    for case, default in zip(cases, results, strict=True):
        if default.outcome is Outcome.FAIL:
            repair = _repair(there, case, default)
            return None if repair is None else Found(case, default, repair)
    return None


def _repair(study: Study, case: Case, default: ProbeResult) -> frozenset[DecisionId] | None:
    """The decisions of the finest kind that, all denied, give eager's bits; else those of the fewest kinds
    that do together, or of a kind that says where something is computed, or ATen's own kernels; None where
    nothing does."""
    by_kind: dict[str, frozenset[DecisionId]] = {}
    for decision in default.measurement.decisions:
        if decision.kind not in study.hooks_off:
            by_kind[decision.kind] = by_kind.get(decision.kind, frozenset()) | {decision.id}
    asking = _Kinds(study, case, {kind: by_kind[kind] for kind in sorted(by_kind, key=list(KINDS).index)})
    fine = [kind for kind in asking.kinds if kind != PLACE and not KINDS[kind].makes_room]
    room = [kind for kind in asking.kinds if KINDS[kind].makes_room]
    one = asking.first([[kind] for kind in fine])
    if one is None and (one := asking.first([fine])) is not None:
        for kind in reversed(fine):
            one = asking.first([[k for k in one if k != kind]]) or one
    found = one or asking.first([*([kind] for kind in room), [PLACE]])
    return None if found is None else _fewest_patterns(study, case, asking.denied[tuple(found)])


def _fewest_patterns(study: Study, case: Case, repair: frozenset[DecisionId]) -> frozenset[DecisionId]:
    """Without the decisions of patterns that are not needed."""
    wanted = sorted({pattern(member) for member in repair})
    for one in wanted if 1 < len(wanted) <= MOST_PATTERNS else ():
        fewer = frozenset(member for member in repair if pattern(member) != one)
        if fewer and study.denied(fewer, case).outcome is Outcome.PASS:
            repair = fewer
    return repair


@dataclass
class _Kinds:
    """Denies all decisions of some kinds. denied: of those that repair, what came up to be denied."""

    study: Study
    case: Case
    kinds: dict[str, frozenset[DecisionId]]
    denied: dict[tuple[str, ...], frozenset[DecisionId]] = field(default_factory=dict)

    def first(self, offered: Sequence[Sequence[str]]) -> Sequence[str] | None:
        """The first that repairs."""
        for some in offered:
            if not some or not all(kind in self.kinds for kind in some):
                continue
            members = frozenset[DecisionId]().union(*(self.kinds[kind] for kind in some))
            result = self.study.denied(members, self.case)
            if result.outcome is Outcome.PASS:
                self.denied[tuple(some)] = members - set(result.measurement.vanished)
                return some
        return None


def _around(info: GraphInfo, node: NodeTrace) -> Iterator[Case]:
    """Parts of the graph with this operation, the smallest first."""
    calls = {n.name for n in info.calls}
    if node.of not in calls:
        return
    if node.is_gradient:
        after = downstream(info, frozenset({node.of}))
        order = [n.name for n in info.calls if n.name in after]
        for size in AFTER:
            end = next((n for n in reversed(order[:size]) if info.node(n).is_tensor), None)
            if end is not None:
                yield region(info, set(order[:size]) & info.ancestors((end,)), end)
        return
    inside = {node.of}
    for _ in range(LEVELS):
        if info.node(node.of).is_tensor:
            yield region(info, inside, node.of)
        inside |= {read for name in inside for read in info.node(name).reads if read in calls}
