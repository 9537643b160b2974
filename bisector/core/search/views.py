"""The two views of a search, causes and repairs: what is known in each, and the minimal hitting sets by which
one view tells where to look in the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Generic

from bisector.core.endings import Ending, SetsReached
from bisector.core.outcome import Outcome

from .minimal import E, Inverted, MemoizedTest, MinimalSet, Test, minimal_set, one_minimal


def minimal_hitting_sets(
    sets: Sequence[Sequence[E]], blocked: Sequence[frozenset[E]] = ()
) -> Iterator[frozenset[E]]:
    """Yield the minimal hitting sets of `sets`, smaller ones first, always in the same order.

    blocked: no set that contains one of these is yielded.

    Best-first search: each step takes one member of the first set not hit yet. The number of hitting sets
    can be exponential in the number of sets, so they are made one at a time; the caller takes what it needs.
    """
    targets = [frozenset(members) for members in sets]
    serial = count()
    # Size at least, then the deeper one (it is nearer to an answer), then the one found first.
    queue = [(_least_more(frozenset(), targets), 0, next(serial), frozenset[E]())]
    seen: set[frozenset[E]] = set()
    while queue:
        *_, chosen = heapq.heappop(queue)
        missed = next((i for i, target in enumerate(targets) if not target & chosen), None)
        if missed is None:
            yield chosen
            continue
        for member in sets[missed]:
            larger = chosen | {member}
            if larger not in seen and _can_be_minimal(larger, targets, blocked):
                size = len(larger) + _least_more(larger, targets)
                heapq.heappush(queue, (size, -len(larger), next(serial), larger))
            seen.add(larger)


def _can_be_minimal(
    chosen: frozenset[E], targets: Sequence[frozenset[E]], blocked: Sequence[frozenset[E]]
) -> bool:
    """Whether each member hits a set that no other member hits; once lost, a larger set cannot regain it."""
    if any(block <= chosen for block in blocked):
        return False
    hit_by_one = frozenset[E]().union(*(t & chosen for t in targets if len(t & chosen) == 1))
    return hit_by_one == chosen


def _least_more(chosen: frozenset[E], targets: Sequence[frozenset[E]]) -> int:
    """How many more members are needed at least: sets not hit that share nothing need one each."""
    used = set(chosen)
    needed = 0
    for target in targets:
        if not target & used:
            used |= target
            needed += 1
    return needed


Members = tuple[E, ...]
# The elements that exist only while these are denied; known ones may be among them.
Appeared = Callable[[frozenset[E]], Sequence[E]]


class Causes(Generic[E]):
    """What is known over the plain baseline."""

    def __init__(self, elements: list[E], enabled: Test[E], likely: Sequence[frozenset[E]]) -> None:
        self.elements = elements  # shared with the repairs, which add what appears
        self._likely = likely
        self._enabled = MemoizedTest(enabled, [((), Outcome.PASS), (elements, Outcome.FAIL)])
        self.found: list[MinimalSet[E]] = []
        self.unexplained: list[Members[E]] = []

    def find_outside(self, hitting: frozenset[E]) -> bool:
        """Add a cause that has no member in `hitting`, so a new one; False if there is none to be seen."""
        rest = outside(self.elements, hitting)
        if self._enabled(frozenset(rest)) is not Outcome.FAIL:
            return False
        self.found.append(minimal_set(rest, self._enabled, likely=self._likely))
        return True


class Repairs(Generic[E]):
    """What is known over the default compile. Searched upside down: there a repair is a set that FAILs."""

    def __init__(
        self, elements: list[E], denied: Test[E], likely: Sequence[frozenset[E]], appeared: Appeared[E]
    ) -> None:
        self._elements = elements
        self._appeared = appeared
        self._likely = likely
        known = [((), Outcome.PASS), (elements, Outcome.FAIL)]
        self._inverted = MemoizedTest(Inverted(denied), known)
        self.found: list[MinimalSet[E]] = []
        self.unresolved: list[Members[E]] = []
        self.rest_unresolved: list[Members[E]] = []
        self.unexpected = False

    def denied(self, members: frozenset[E]) -> Outcome:
        return self._inverted(members).inverted()

    def knows(self, members: frozenset[E]) -> bool:
        return self._inverted.knows(members)

    def grow(self, denied: frozenset[E]) -> frozenset[E]:
        """Take what exists only while these are denied into the elements; returns what is new of it."""
        fresh = [e for e in self._appeared(denied) if e not in self._elements]
        self._elements += fresh
        return frozenset(fresh)

    def add_inside(self, repairing: frozenset[E]) -> None:
        """Add a minimal repair within a set that repairs."""
        members = inside(self._elements, repairing)
        repair = one_minimal(members, self._inverted).inverted()
        self.found.append(repair)
        # Without any one of its members a minimal hitting set lets a cause through; here it still repaired.
        self.unexpected |= len(repair.members) < len(members)

    def search(self, limit: int) -> Ending | None:
        """Find repairs that avoid a hitting set of those found, until none is left; return why it stopped."""
        indispensable: list[frozenset[E]] = []  # each repair, found or not, has a member of each
        while True:
            avoided = untried(self.found, blocked=indispensable, tried=self.rest_unresolved)
            if avoided is None:
                return None
            if max(len(self.found), len(indispensable) + len(self.rest_unresolved)) >= limit:
                return SetsReached(limit)
            rest = outside(self._elements, avoided)
            outcome = self.denied(frozenset(rest))
            if outcome is Outcome.PASS:
                self.found.append(minimal_set(rest, self._inverted, likely=self._likely).inverted())
            elif outcome is Outcome.FAIL:
                if not self.grow(frozenset(rest)):  # else the same is asked with what appeared denied too
                    indispensable.append(avoided)
            else:
                self.rest_unresolved.append(inside(self._elements, avoided))


def untried(
    found: Sequence[MinimalSet[E]], blocked: Sequence[frozenset[E]], tried: Sequence[Members[E]]
) -> frozenset[E] | None:
    """The smallest minimal hitting set of the found sets that was not tried and contains no blocked one."""
    hitting_sets = minimal_hitting_sets([minimal.members for minimal in found], blocked)
    past = {frozenset(members) for members in tried}
    return next((hitting for hitting in hitting_sets if hitting not in past), None)


def inside(elements: Sequence[E], members: frozenset[E]) -> Members[E]:
    return tuple(element for element in elements if element in members)


def outside(elements: Sequence[E], members: frozenset[E]) -> Members[E]:
    return tuple(element for element in elements if element not in members)
