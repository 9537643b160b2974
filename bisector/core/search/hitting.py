"""Minimal hitting sets: the smallest ways to take at least one member from each of several sets."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count


def minimal_hitting_sets(
    sets: Sequence[Sequence[str]], blocked: Sequence[frozenset[str]] = ()
) -> Iterator[frozenset[str]]:
    """Yield the minimal hitting sets of `sets`, smaller ones first, always in the same order.

    blocked: no set that contains one of these is yielded.

    Best-first search: each step takes one member of the first set not hit yet. The number of hitting sets
    can be exponential in the number of sets, so they are made one at a time; the caller takes what it needs.
    """
    targets = [frozenset(members) for members in sets]
    serial = count()
    # Size at least, then the deeper one (it is nearer to an answer), then the one found first.
    queue = [(_least_more(frozenset(), targets), 0, next(serial), frozenset[str]())]
    seen: set[frozenset[str]] = set()
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
    chosen: frozenset[str], targets: Sequence[frozenset[str]], blocked: Sequence[frozenset[str]]
) -> bool:
    """Whether each member hits a set that no other member hits; once lost, a larger set cannot regain it."""
    if any(block <= chosen for block in blocked):
        return False
    hit_by_one = frozenset[str]().union(*(t & chosen for t in targets if len(t & chosen) == 1))
    return hit_by_one == chosen


def _least_more(chosen: frozenset[str], targets: Sequence[frozenset[str]]) -> int:
    """How many more members are needed at least: sets not hit that share nothing need one each."""
    used = set(chosen)
    needed = 0
    for target in targets:
        if not target & used:
            used |= target
            needed += 1
    return needed
