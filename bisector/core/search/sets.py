"""All minimal causes and all minimal repairs, each view telling where to look in the other.

A repair must break every cause, so it is a hitting set of the causes; a hitting set that does not repair
proves a cause that is not found yet, outside of it (Reiter 1987; Liffiton et al. 2016, MARCO).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic

from ..budget import BudgetSpent
from ..endings import Ending, SetsReached
from ..notes import Note
from ..outcome import Outcome
from ..search_notes import DeniedUnexplained, DeniedUnjudged, RestUnjudged
from .minimal import E, Inverted, MemoizedTest, MinimalSet, Test, minimal_set, one_minimal


def _nothing_new(denied: frozenset[E]) -> Sequence[E]:
    return ()


@dataclass(frozen=True)
class SetsFound(Generic[E]):
    """The causes and repairs that were found, and what could not be decided.

    unresolved: sets that, denied, could not be judged; each would be a repair or hide another cause.
    unexplained: sets that hit every cause found, yet do not repair, while enabling all the rest over the
    plain baseline does not FAIL: one of the two compiles has a decision that the other has not.
    rest_unresolved: sets of which could not be judged whether denying everything else repairs; a repair
    that has none of their members may be missing.
    stopped_because: why the search ended before nothing was left to try; None if it did not.
    """

    causes: tuple[MinimalSet[E], ...] = ()
    repairs: tuple[MinimalSet[E], ...] = ()
    unresolved: tuple[Members[E], ...] = ()
    unexplained: tuple[Members[E], ...] = ()
    rest_unresolved: tuple[Members[E], ...] = ()
    stopped_because: Ending | None = None

    @property
    def gaps(self) -> tuple[Note, ...]:
        """Why the causes and repairs that were found may not be all."""
        possible_gaps = (
            DeniedUnjudged(self.unresolved),
            DeniedUnexplained(self.unexplained),
            RestUnjudged(self.rest_unresolved),
        )
        return tuple(gap for gap in possible_gaps if gap.sets)


def all_sets(
    elements: Sequence[E],
    enabled: Test[E],
    denied: Test[E],
    limit: int,
    likely: Sequence[frozenset[E]] = (),
    appeared: Appeared[E] = _nothing_new,
) -> SetsFound[E]:
    """Find every minimal cause and every minimal repair, at most `limit` of each (a gap counts as a repair).

    enabled(S): only S enabled over the plain baseline. denied(S): S denied over the default compile. The
    caller has probed enabled(nothing) PASS, enabled(all) FAIL, denied(nothing) FAIL and denied(all) PASS;
    these are not probed again, and no set is asked twice in one view.

    likely: sets to look into first (see minimal_set). They save probes, and change no answer's proof.
    appeared(S): asked where denying S, which the causes would have repair, does not: what came up instead
    joins the elements.

    The two views need not mirror each other, as denying a decision can make others appear or vanish. So
    every set is proved in its own view, and where the views are seen to disagree, or something could not be
    judged, repairs are also searched for without the help of the causes. A disagreement that none of the
    probes made here shows can still hide a set.
    A spent budget ends the search like the limit: with what was found so far.
    """
    shared = list(elements)
    causes = Causes(shared, enabled, likely)
    repairs = Repairs(shared, denied, likely, appeared)
    try:
        stopped_because = _search_both(causes, repairs, limit)
        mirrored = not (causes.unexplained or repairs.unresolved or repairs.unexpected)
        if stopped_because is None and not mirrored:
            stopped_because = repairs.search(limit)
    except BudgetSpent as spent:
        stopped_because = spent.reason
    return SetsFound(
        causes=tuple(causes.found),
        repairs=tuple(repairs.found),
        unresolved=tuple(repairs.unresolved),
        unexplained=tuple(causes.unexplained),
        rest_unresolved=tuple(repairs.rest_unresolved),
        stopped_because=stopped_because,
    )


def repairs_only(
    elements: Sequence[E],
    denied: Test[E],
    limit: int,
    likely: Sequence[frozenset[E]] = (),
    appeared: Appeared[E] = _nothing_new,
) -> SetsFound[E]:
    """Find minimal repairs, at most `limit`, where no plain baseline can be built.

    The caller has probed denied(nothing) FAIL and denied(all) PASS. Every repair is found unless one is
    missing for a reason given in the answer. Sets that no repair can do without count towards the limit too:
    each costs a probe to establish, and there can be many.
    """
    repairs = Repairs(list(elements), denied, likely, appeared)
    try:
        stopped_because = repairs.search(limit)
    except BudgetSpent as spent:
        stopped_because = spent.reason
    return SetsFound(
        repairs=tuple(repairs.found),
        rest_unresolved=tuple(repairs.rest_unresolved),
        stopped_because=stopped_because,
    )


def _search_both(causes: Causes[E], repairs: Repairs[E], limit: int) -> Ending | None:
    """Try hitting sets of the causes until none is left; return why it stopped before, if it did."""
    while True:
        unsettled = repairs.unresolved + causes.unexplained
        known_repairs = [frozenset(repair.members) for repair in repairs.found]
        hitting = untried(causes.found, blocked=known_repairs, tried=unsettled)
        if hitting is None:
            return None
        if len(repairs.found) + len(unsettled) >= limit:
            return SetsReached(limit)
        outcome = repairs.denied(hitting)
        if outcome is Outcome.PASS:
            repairs.add_inside(hitting)
            continue
        if len(causes.found) >= limit:
            return SetsReached(limit)
        # Also where denying it is UNRESOLVED: once a cause outside is known, this set need not be judged.
        if causes.find_outside(hitting):
            continue
        instead = repairs.grow(hitting) if outcome is Outcome.FAIL else frozenset()
        if instead and _took_its_place(causes, repairs, hitting, instead):
            continue
        gaps = causes.unexplained if outcome is Outcome.FAIL else repairs.unresolved
        gaps.append(inside(causes.elements, hitting))


def _took_its_place(
    causes: Causes[E], repairs: Repairs[E], hitting: frozenset[E], instead: frozenset[E]
) -> bool:
    """Whether what appeared when `hitting` was denied explains that it did not repair: it makes a cause, or
    denying it as well repairs."""
    if causes.find_outside(hitting, instead):
        return True
    if repairs.denied(hitting | instead) is not Outcome.PASS:
        return False
    repairs.add_inside(hitting | instead)
    repairs.unexpected = True  # no cause known asks for what appeared to be denied
    return True


# -- what is known in each view, and where the one tells to look in the other -------------------------------


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

    def find_outside(self, hitting: frozenset[E], instead: frozenset[E] = frozenset()) -> bool:
        """Add a cause that has no member in `hitting`, so a new one; False if there is none to be seen.

        instead: what appeared where `hitting` was denied; with the rest of a known cause it is likely one.
        """
        rest = outside(self.elements, hitting)
        if self._enabled(frozenset(rest)) is not Outcome.FAIL:
            return False
        likely = [frozenset(known.members) - hitting | instead for known in self.found] if instead else []
        self.found.append(minimal_set(rest, self._enabled, likely=[*likely, *self._likely]))
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
