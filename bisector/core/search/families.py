"""The family of decisions that carries a divergence where no single one does.

A model in bfloat16 leaves out a rounding at hundreds of places, and each carries a little. Which of them is
to blame has no answer; which groups they are of has, in a few questions, each a compile of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..decision import DecisionId
from ..outcome import Outcome

Members = tuple[DecisionId, ...]


@dataclass(frozen=True)
class Tried:
    """A set that was denied, and which part of the divergence that removes, 0 to 1."""

    members: Members
    outcome: Outcome
    removed: float

    @property
    def repairs(self) -> bool:
        return self.outcome is Outcome.PASS


Ask = Callable[[Sequence[Members]], Sequence[Tried]]  # sets that are asked side by side


@dataclass(frozen=True)
class Family:
    """Decisions that together repair, or that carry much.

    groups: the names of those that it takes members of. removed: which part of the divergence is gone without
    the members, 1 where they repair. halves: the family without its first and without its second half, in
    the order of the graph, where both were asked and neither repairs: then no half of it does. alone: what
    groups remove by themselves, as far as they were asked; without: what the others of the family remove
    without a group.
    """

    groups: tuple[str, ...]
    members: Members
    removed: float = 1.0
    halves: tuple[Tried, ...] = ()
    alone: Mapping[str, float] = field(default_factory=dict)
    without: Mapping[str, float] = field(default_factory=dict)

    @property
    def repairs(self) -> bool:
        return self.removed == 1.0


# Of the divergence: less comes and goes with any rounding that moves.
MATTERS = 0.2


REST = "rest"  # the name of a group of all others


def family(
    groups: Mapping[str, Members], order: Sequence[str], ask: Ask, most: int, rest: Members = ()
) -> Family | None:
    """The family among groups of decisions, the likeliest group first.

    order: all decisions as they are in the graph. most: questions, of which two are asked at a time. rest:
    further decisions, which are tried with the groups where these do not repair. None where all together do
    not carry much. Where a half of the members repairs, the family is that half, and so on as far as the
    questions go.
    """
    return _Search({**groups, **({REST: rest} if rest else {})}, order, ask, most).found()


class _Search:
    def __init__(self, groups: Mapping[str, Members], order: Sequence[str], ask: Ask, most: int) -> None:
        self.groups = groups
        self.order = {member: at for at, member in enumerate(order)}
        self.left = most
        self._ask = ask
        self._known: dict[Members, Tried] = {}

    def ask(self, *sets: Members) -> list[Tried]:
        """No set is asked twice."""
        fresh = [one for one in dict.fromkeys(sets) if one not in self._known]
        if fresh:
            self.left -= len(fresh)
            self._known |= zip(fresh, self._ask(fresh), strict=True)
        return [self._known[one] for one in sets]

    def of(self, names: Iterable[str]) -> Members:
        """The members of several groups, each once."""
        members = {member for name in names for member in self.groups[name]}
        return tuple(sorted(members, key=lambda member: self.order.get(member, len(self.order))))

    def found(self) -> Family | None:
        names = tuple(name for name in self.groups if name != REST)
        if not names or self.left < 1:
            return None
        [everything] = self.ask(self.of(names))
        if not everything.repairs and REST in self.groups and self.left > 0:
            [with_rest] = self.ask(self.of((*names, REST)))
            if with_rest.repairs:
                names, everything = (*names, REST), with_rest
        if everything.repairs:
            return self._narrowed(self._needed(Family(names, everything.members)))
        if everything.removed < MATTERS:
            return None
        alone = self._alone(names) if len(names) > 1 else {}
        return Family(names, everything.members, everything.removed, alone=alone)

    def _alone(self, names: Sequence[str]) -> dict[str, float]:
        """What each group removes by itself, of as many as there are questions for."""
        removed_by: dict[str, float] = {}
        for pair in _pairs(names[: max(self.left, 0)]):
            tried = self.ask(*(self.of([name]) for name in pair))
            removed_by |= {name: one.removed for name, one in zip(pair, tried, strict=True)}
        return removed_by

    def _needed(self, all_groups: Family) -> Family:
        """Without the groups that are not needed, as far as that can be asked."""
        names = list(all_groups.groups)
        if len(names) < 2 or len(names) > self.left:
            return all_groups
        rests: dict[str, Tried] = {}
        for pair in _pairs(names):
            sets = [self.of(other for other in names if other != name) for name in pair]
            rests |= zip(pair, self.ask(*sets), strict=True)
        needed = tuple(name for name in names if not rests[name].repairs)
        if 0 < len(needed) < len(names) and self.left > 0 and self.ask(self.of(needed))[0].repairs:
            return replace(all_groups, groups=needed, members=self.of(needed))
        without = {name: rest.removed for name, rest in rests.items() if not rest.repairs}
        return replace(all_groups, without=without)

    def _narrowed(self, whole: Family) -> Family:
        """The half that repairs by itself, and so on; with the proof where neither does."""
        found = whole
        while len(found.members) > 1 and self.left > 1:
            middle = len(found.members) // 2
            tried = self.ask(found.members[middle:], found.members[:middle])
            repairing = next((one for one in tried if one.repairs), None)
            if repairing is None:
                return replace(found, halves=tuple(tried))
            there = {name for name in found.groups if set(self.groups[name]) & set(repairing.members)}
            groups = tuple(name for name in found.groups if name in there)
            found = replace(found, groups=groups, members=repairing.members, without={})
        return found


def _pairs(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at : at + 2] for at in range(0, len(names), 2)]
