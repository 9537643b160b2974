"""What a search of decisions looks into first, and the order in which decisions are named.

Groups of like decisions come first, then what a flag that repairs governs and the place where the difference
arises. What is found there is proved like anything else, and where nothing is, all the rest is searched: a
suspicion saves questions and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisector.core.decision import BACKWARD, DecisionId
from bisector.core.followed import Followed
from bisector.core.kinds import FRAME, KINDS, LOWER
from bisector.core.model import Signature
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import Members, MinimalSet, Test, minimal_set
from bisector.core.trace import GRADIENT

# A repair by groups is split into single decisions up to this many members.
SEPARATED = 12
PLACE = LOWER.name  # names where, not why: a fallback also breaks fusion and recomputation around its node
PLACES = frozenset({PLACE, FRAME.name})  # the same of Dynamo: what Python runs is not compiled at all
_RANK = {kind: i for i, kind in enumerate(KINDS)}
RECOMPUTED = "inline"


def rank_of(decision_id: DecisionId) -> int:
    """The finer the kind, the lower."""
    return _RANK.get(decision_id.kind, len(_RANK))


def ordered(ids: Iterable[DecisionId]) -> list[DecisionId]:
    """The finest kind first, else as they come."""
    return sorted(ids, key=rank_of)


def finest(sets: Sequence[MinimalSet[DecisionId]]) -> list[MinimalSet[DecisionId]]:
    """Small sets first, among equals the finest kind first."""
    return sorted(sets, key=lambda found: (len(found.members), sorted(map(rank_of, found.members))))


def by_groups(
    elements: Sequence[DecisionId], test: Test[DecisionId], likely: Members[DecisionId] = frozenset()
) -> MinimalSet[DecisionId]:
    """A set that FAILs: minimal in groups, and 1-minimal in members where there are few. likely: elements
    whose groups are worth a question first."""
    groups: dict[str, list[DecisionId]] = {}
    for element in elements:
        groups.setdefault(element.group, []).append(element)
    first = [frozenset(element.group for element in likely)]
    found = minimal_set(list(groups), _Grouped(test, groups), likely=first) if len(groups) > 1 else None
    names = found.members if found is not None else tuple(groups)
    members = [m for name in names for m in groups[name]]
    if len(members) > 1 and len(members) <= SEPARATED:
        return minimal_set(members, test)
    unproved = Outcome.PASS if len(members) == 1 else Outcome.UNRESOLVED
    return MinimalSet(tuple(members), Outcome.FAIL, tuple(unproved for _ in members))


class _Grouped:
    """A test of groups by their names."""

    def __init__(self, test: Test[DecisionId], groups: Mapping[str, list[DecisionId]]) -> None:
        self._test = test
        self._groups = groups

    def __call__(self, names: Members[str]) -> Outcome:
        return self._test(frozenset(m for name in names for m in self._groups[name]))


@dataclass(frozen=True)
class Suspects:
    """kinds: of decisions. nodes: names of nodes; `prefix` stands for all whose names begin so. arising: all
    nodes where a difference arises."""

    kinds: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    prefix: str | None = None
    arising: frozenset[str] = frozenset()

    def sets(self, decision_ids: Sequence[DecisionId]) -> list[Members[DecisionId]]:
        """Sets worth a question each before any bisection, the narrowest first.

        The kinds are suspected alone and together with what decides where a value is computed, since a
        rounding that a kernel skips shows where the same value was stored.
        """
        choices = [self.kinds, self.kinds | {RECOMPUTED}] if self.kinds else []
        by_kind = [frozenset(i for i in decision_ids if i.kind in kinds) for kinds in choices]
        here = self.here(decision_ids)
        found = [*(some & here for some in by_kind), here, *by_kind]
        return list(dict.fromkeys(some for some in found if some))

    def here(self, decision_ids: Iterable[DecisionId]) -> Members[DecisionId]:
        """Those that are made where the difference arises; none where that is not known."""
        return frozenset(i for i in decision_ids if self._has(i.node))

    def _has(self, node: str) -> bool:
        return node in self.nodes or (self.prefix is not None and node.startswith(self.prefix))


NOBODY = Suspects()


def suspects(
    kinds: frozenset[str], followed: Followed | None, signatures: Sequence[Signature]
) -> Suspects:
    """The place is the origin with what it reads, since a rounding that is skipped in one node shows in the
    next; the backward graphs where gradients alone diverge."""
    origin = followed.origin if followed is not None else None
    trace = followed.trace if followed is not None else None
    nodes = trace.nodes if trace is not None else ()
    arising = frozenset(node.name for node in nodes if node.arises)
    if origin is not None:
        return Suspects(kinds, nodes=frozenset({origin.name, *origin.reads}), arising=arising)
    if signatures and all(s.path.startswith(GRADIENT) for s in signatures):
        return Suspects(kinds, prefix=BACKWARD, arising=arising)
    return Suspects(kinds, arising=arising)
