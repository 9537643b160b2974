"""The family of decisions that carries a divergence where no single one does.

A model in bfloat16 leaves out a rounding at hundreds of places, and each carries a little. Which of them is
to blame has no answer; which kind they are of has, in a few questions, each a compile of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    """Decisions that repair together, and of which neither half does.

    groups: their names. halves: the two parts, in the order of the graph; empty where the questions ran out
    before both were asked. others: further groups that were asked, with what each removes alone.
    """

    groups: tuple[str, ...]
    members: Members
    halves: tuple[Tried, ...] = ()
    others: Mapping[str, float] | None = None


def family(groups: Mapping[str, Members], ask: Ask, most: int) -> Family | None:
    """The family among groups of decisions, the likeliest first; None where neither one of the first groups
    repairs nor all together. most: questions, of which two are asked at a time.

    One group first: to deny others as well moves other bits. A half that repairs by itself takes the place of
    the whole family, so that a single decision is found if it alone carries everything.
    """
    names = list(groups)
    told: dict[str, Tried] = {}
    for few in (names[:2], names[2:4]):
        told |= zip(few, ask([groups[name] for name in few]), strict=True) if few else ()
        repairing = next((name for name in few if told[name].repairs), None)
        if repairing is not None:
            others = {name: tried.removed for name, tried in told.items() if name != repairing}
            return _narrowed(Family((repairing,), groups[repairing], others=others), ask, most - len(told))
    everything = tuple(member for members in groups.values() for member in members)
    if len(names) < 2 or not ask([everything])[0].repairs:
        return None
    return _narrowed(Family(tuple(names), everything), ask, most - len(told) - 1)


def _narrowed(found: Family, ask: Ask, most: int) -> Family:
    while len(found.members) > 1 and most >= 2:
        middle = len(found.members) // 2
        halves = tuple(ask([found.members[:middle], found.members[middle:]]))
        most -= 2
        repairing = next((half for half in halves if half.repairs), None)
        if repairing is None:
            return replace(found, halves=halves)
        found = replace(found, members=repairing.members)
    return found
