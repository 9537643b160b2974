"""The family of decisions that carries a divergence where no single one does.

A model in bfloat16 leaves out a rounding at hundreds of places, and each carries a little. Which of them is
to blame has no answer; which kind they are of has, in a few questions, each a compile of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..model import Outcome

Members = tuple[str, ...]


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
    """Decisions that together repair, and of which each quarter is needed, or that carry more than others.

    group: its name, None where it takes all groups. removed: which part of the divergence is gone without
    them, 1 where they repair. rests: the family without each quarter of it, in the order of the graph; none
    of them repairs. others: further groups that were asked, with what each removes alone.
    """

    group: str | None
    members: Members
    removed: float = 1.0
    rests: tuple[Tried, ...] = ()
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def repairs(self) -> bool:
        return self.removed == 1.0


# Of the divergence: less comes and goes with any rounding that moves.
MATTERS = 0.2
PARTS = 4


def family(groups: Mapping[str, Members], ask: Ask, most: int) -> Family | None:
    """The family among groups of decisions, the likeliest first. most: questions, of which two are asked at a
    time.

    One group first: to deny others as well moves other bits. Where neither one of the first groups repairs
    nor all together, it is the group that carries most, if it carries much. None, too, where few of the
    members may do: a family of which a quarter is not needed is searched by other means.
    """
    names = list(groups)
    told: dict[str, Tried] = {}
    for few in (names[:2], names[2:4]):
        told |= zip(few, ask([groups[name] for name in few]), strict=True) if few else ()
        repairing = next((name for name in few if told[name].repairs), None)
        if repairing is not None:
            found = Family(repairing, groups[repairing], others=_without(told, repairing))
            return _needed(found, ask, most - len(told))
    everything = tuple(member for members in groups.values() for member in members)
    if len(names) > 1 and ask([everything])[0].repairs:
        return _needed(Family(None, everything), ask, most - len(told) - 1)
    largest = max(told, key=lambda name: told[name].removed, default=None)
    if largest is None or told[largest].removed < MATTERS:
        return None
    return Family(largest, groups[largest], told[largest].removed, others=_without(told, largest))


def _without(told: Mapping[str, Tried], chosen: str) -> dict[str, float]:
    return {name: tried.removed for name, tried in told.items() if name != chosen}


def _needed(found: Family, ask: Ask, most: int) -> Family | None:
    """The family where each quarter of it is needed: then no half of it does, nor any single decision."""
    count = len(found.members)
    if count < PARTS or most < PARTS:
        return None
    ends = [count * at // PARTS for at in range(PARTS + 1)]
    rests = [found.members[:a] + found.members[b:] for a, b in pairwise(ends)]
    tried = (*ask(rests[:2]), *ask(rests[2:]))
    return None if any(rest.repairs for rest in tried) else replace(found, rests=tried)
