"""The family of decisions that carries a divergence of a large graph, asked of the whole graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from bisector.core.case import WHOLE
from bisector.core.clusters import pattern
from bisector.core.decision import Decision, DecisionId
from bisector.core.graphinfo import layer_of
from bisector.core.judge import proof, removed_square
from bisector.core.kinds import KINDS
from bisector.core.mechanism import Carries, FoundFamily, Mechanism
from bisector.core.model import ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.search.families import Members, Tried, family
from bisector.core.search.minimal import Inverted, MinimalSet, minimal_set
from bisector.core.shares import Part, Parts
from bisector.core.trace import Trace

from .localisation import followable
from .questions import Denied
from .rounds import in_rounds
from .search_order import PLACE
from .study import Study

MOST_QUESTIONS = 8  # compiles of the whole; 4 where the likeliest group repairs
MOST_GROUPS = 4  # of decisions
ALIKE = 0.05  # of two shares of one divergence
MOST_GONE = 0.3  # of the difference: less than this is left without the one node that makes it
ALMOST = 0.999  # what does not repair never removes all


def family_of_whole(
    study: Study,
    default: ProbeResult,
    trace: Trace | None,
    mechanisms: Sequence[Mechanism],
    suspected: Collection[str],
    known: Collection[str],
) -> FoundFamily | None:
    """None where no decisions together carry much of it.

    trace: of the whole. mechanisms: what makes the operations differ. suspected: kinds of decision that flags
    which repair govern. known: patterns of decisions that repair a part of the graph.
    """
    decisions = [d for d in default.measurement.decisions if d.kind not in study.hooks_off]
    paths = followable(default)
    groups = _groups(decisions, mechanisms, known) or _by_kind(decisions, trace, suspected)
    taken = {member for members in groups.values() for member in members}
    behind = trace.behind(paths) if trace is not None else ()
    arising = {name for n in behind if n.arises for name in (n.name, *n.reads)}
    left = (d for d in decisions if d.id not in taken and not _is_context(d.kind))
    rest = tuple(d.id for d in left if d.node in arising)
    asking = _SetTest(study, default, paths, frozenset(d.id for d in decisions))
    found = family(groups, [d.id for d in decisions], asking, MOST_QUESTIONS, rest)
    if found is None:
        return None
    parts = trace.parts if trace is not None and trace.parts.faithful(paths) else Parts()
    return FoundFamily(
        found,
        _layers(study, found.members, parts, paths),
        _operations(mechanisms, parts, paths),
        tuple(_carries(part, len(part.nodes), paths) for part in parts.most),
    )


def _carries(part: Part, places: int, paths: Sequence[str], made_by: Sequence[str] = ()) -> Carries:
    return Carries(part.name, places, part.alone(paths), part.without(paths), tuple(made_by))


def _operations(mechanisms: Sequence[Mechanism], parts: Parts, paths: Sequence[str]) -> tuple[Carries, ...]:
    """With what makes each differ, those too of which that is not known."""
    known = {mechanism.operation: sorted(mechanism.patterns) for mechanism in mechanisms}
    found = [_carries(part, len(part.nodes), paths, known.get(part.name, ())) for part in parts.operations]
    return tuple(sorted((one for one in found if one.alone), key=lambda one: -(one.alone or 0.0)))


def seen_again(found: FoundFamily, default: ProbeResult, result: ProbeResult) -> FoundFamily:
    """Whether it is confirmed by the second worker's default compile, and that with the family denied."""
    again = tried(default, result, found.family.members, followable(default))
    held = again.repairs if found.family.repairs else again.removed >= found.family.removed - ALIKE
    return replace(found, confirmed=default.outcome is Outcome.FAIL and held)


@in_rounds
def smallest_on_whole(study: Study, members: Members) -> MinimalSet[DecisionId]:
    """A minimal repair of the whole among a few decisions that together repair it."""
    if len(members) == 1:
        return MinimalSet(members, Outcome.PASS, (Outcome.FAIL,))
    return minimal_set(members, Inverted(Denied(study, WHOLE))).inverted()


def is_diffuse(trace: Trace | None, default: ProbeResult) -> bool:
    """Whether no single node carries the divergence: without the errors of any one of them most is left."""
    paths = followable(default)
    if trace is None or not trace.parts.faithful(paths):
        return False
    return all(part.without(paths) > MOST_GONE for part in trace.parts.most)


@dataclass
class _SetTest:
    """Denies sets over the whole. paths: the outputs that diverge by default. known: all decisions of the
    default compile. appeared: those that came up as others were denied."""

    study: Study
    default: ProbeResult
    paths: Sequence[str]
    known: frozenset[str]
    appeared: dict[DecisionId, None] = field(default_factory=dict)

    def __call__(self, sets: Sequence[Members]) -> list[Tried]:
        asked = [self._with_appeared(members) for members in sets]
        results = self._denied(asked)
        self._note(asked, results)
        wider = [self._with_appeared(members) for members in sets]
        changed = [at for at, members in enumerate(wider) if members != asked[at]]
        for at, result in zip(changed, self._denied([wider[at] for at in changed]), strict=True):
            results[at] = result
        return [self._tried(members, result) for members, result in zip(wider, results, strict=True)]

    def _note(self, asked: Sequence[Members], results: Sequence[ProbeResult]) -> None:
        """To deny decisions can make others of their patterns appear, which belong to them."""
        for members, result in zip(asked, results, strict=True):
            wanted = {pattern(member) for member in members}
            there = (d for d in result.measurement.decisions if d.kind not in self.study.hooks_off)
            fresh = (d.id for d in there if d.id not in self.known and pattern(d.id) in wanted)
            self.appeared |= dict.fromkeys(fresh if result.outcome is Outcome.FAIL else ())

    def _with_appeared(self, members: Members) -> Members:
        wanted = {pattern(member) for member in members}
        more = [one for one in self.appeared if pattern(one) in wanted and one not in members]
        return (*members, *more)

    def _denied(self, sets: Sequence[Members]) -> list[ProbeResult]:
        asked = [(self.study.deny(frozenset(members)), WHOLE) for members in sets]
        return self.study.probe_all(asked) if asked else []

    def _tried(self, members: Members, result: ProbeResult) -> Tried:
        """Without the members that never came up: the compile is the one that denies the others."""
        gone = set(result.measurement.vanished)
        return tried(self.default, result, tuple(m for m in members if m not in gone), self.paths)


def tried(default: ProbeResult, result: ProbeResult, members: Members, paths: Sequence[str]) -> Tried:
    """What denying the members did. paths: the outputs that diverge by default."""
    outcome = proof(result, members).outcome
    if outcome is Outcome.PASS:
        return Tried(members, outcome, 1.0)
    removed = removed_square(default.measurement, result.measurement, paths)
    return Tried(members, outcome, min(removed, ALMOST))


def _is_context(kind: str) -> bool:
    """Whether it says where something is computed, not how; or is a place."""
    return kind == PLACE or KINDS[kind].makes_room


def _groups(
    decisions: Sequence[Decision], mechanisms: Sequence[Mechanism], known: Collection[str]
) -> dict[str, Members]:
    """Decisions by what makes the operations differ, those that carry most first, then by what repaired a
    part: by patterns, each in one group; where these are not known, all that are taken at an operation and
    are no context."""
    groups: dict[str, Members] = {}
    taken: set[str] = set()
    for mechanism in mechanisms:
        fresh, there = mechanism.patterns - taken, set(mechanism.nodes)
        if fresh:
            members = [d.id for d in decisions if pattern(d.id) in fresh]
            groups[" + ".join(sorted(fresh))] = tuple(members)
        elif not mechanism.patterns:
            members = [d.id for d in decisions if d.node in there and not _is_context(d.kind)]
            groups[mechanism.operation] = tuple(members)
        taken |= fresh
    for one in sorted(set(known) - taken):
        groups[one] = tuple(d.id for d in decisions if pattern(d.id) == one)
    return dict([(name, members) for name, members in groups.items() if members][:MOST_GROUPS])


def _by_kind(
    decisions: Sequence[Decision], trace: Trace | None, suspected: Collection[str]
) -> dict[str, Members]:
    """Decisions by kind, where nothing is known of operations: first what flags that repair govern, then
    those of nodes where most arises."""
    arises = {n.name: n.local for n in trace.nodes if n.arises} if trace is not None else {}
    there: Counter[str] = Counter()
    groups: dict[str, list[DecisionId]] = {}
    for decision in decisions:
        if decision.kind != PLACE:
            groups.setdefault(decision.kind, []).append(decision.id)
            there[decision.kind] += arises.get(decision.node, 0.0)  # type: ignore[assignment]

    def rank(kind: str) -> tuple[bool, bool, float, int]:
        return kind not in suspected, KINDS[kind].makes_room, -there[kind], -len(groups[kind])

    return {kind: tuple(groups[kind]) for kind in sorted(groups, key=rank)[:MOST_GROUPS]}


def _layers(
    study: Study, members: Members, parts: Parts, paths: Sequence[str]
) -> tuple[Carries, ...]:
    modules = {node.name: layer_of(node.module) for node in study.describe(WHOLE).nodes}
    counted = Counter(modules.get(member.forward_node, "") for member in members)
    shares = {part.name: part for part in parts.layers}
    found = []
    for layer in dict.fromkeys(modules.values()):
        if layer and layer in shares:
            found.append(_carries(shares[layer], counted[layer], paths))
        elif layer and counted[layer]:
            found.append(Carries(layer, counted[layer], None, None))
    return tuple(found)
