"""The first failing prefix of an ordered axis, by bisection that keeps away from what cannot be judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from bisector.core.model import Outcome


@dataclass(frozen=True)
class Transition:
    """Where an ordered axis turns to FAIL.

    first_fail: the length of a prefix that FAILs.
    last_pass: the longest shorter prefix that was seen to PASS, or 0.
    Everything strictly between was probed and is UNRESOLVED.
    """

    last_pass: int
    first_fail: int

    @property
    def unresolved(self) -> tuple[int, ...]:
        """The lengths between the two ends; the transition is somewhere among them if there are any."""
        return tuple(range(self.last_pass + 1, self.first_fail))


def first_failing(
    n: int, test: Callable[[int], Outcome], lanes: int = 1, ahead: Callable[[list[int]], None] | None = None
) -> Transition:
    """Find a transition among the prefixes of lengths 0..n (n >= 1).

    The caller guarantees that test(0) is not FAIL and that test(n) is FAIL; neither is probed here, and no
    length is probed twice. With every length resolved this takes at most ceil(log2 n) probes. Where the
    outcomes are not monotone there are several transitions, and one of them is returned.
    lanes, ahead: with k lanes, k lengths that cut the range in k+1 parts are given to `ahead` before `test`
    asks for them one by one: more probes, fewer rounds.
    """
    low, high = 0, n
    unresolved: list[int] = []
    while lengths := _cuts(low, high, unresolved, lanes):
        if ahead is not None and len(lengths) > 1:
            ahead(lengths)
        for length in lengths:
            if not low < length < high:
                continue
            outcome = test(length)
            if outcome is Outcome.FAIL:
                high = length
            elif outcome is Outcome.PASS:
                low = length
            else:
                unresolved.append(length)
        unresolved = [u for u in unresolved if low < u < high]
    return Transition(low, high)


def _cuts(low: int, high: int, unresolved: list[int], lanes: int) -> list[int]:
    """Lengths to probe next, at most one for each lane; empty when all from low to high are probed.

    One lane takes the midpoint while all resolve; more lanes cut the range evenly.
    """
    if lanes > 1 and not unresolved:
        span = high - low
        return sorted({low + span * i // (lanes + 1) for i in range(1, lanes + 1)} - {low, high})
    length = _farthest_from_probed(low, high, unresolved)
    return [] if length is None else [length]


def _farthest_from_probed(low: int, high: int, unresolved: list[int]) -> int | None:
    """The middle of the widest run between two probed lengths; None when all from low to high are probed.

    It is the midpoint while all resolve. UNRESOLVED lengths come in blocks, so a length far from them tells
    more than the midpoint's next neighbour: one sound length on each side leaves the whole block behind.
    """
    runs = pairwise([low, *sorted(unresolved), high])
    left, right = max(runs, key=lambda run: run[1] - run[0])
    return (left + right) // 2 if right - left > 1 else None
