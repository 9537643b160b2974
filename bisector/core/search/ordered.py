"""The first failing prefix of an ordered axis, by bisection that keeps away from what cannot be judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from bisector.core.outcome import Outcome


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


@dataclass(frozen=True)
class Interval:
    """What is known while the transition is looked for: it lies after `low`, which PASSes, and up to `high`,
    which FAILs. unresolved: the lengths between them that were probed."""

    low: int
    high: int
    unresolved: tuple[int, ...] = ()

    def next(self) -> int | None:
        """The length to probe; None when all between the ends are probed.

        It is the midpoint while all resolve, and else the middle of the widest run between two probed
        lengths. UNRESOLVED lengths come in blocks, so a length far from them tells more than the midpoint's
        next neighbour: one sound length on each side leaves the whole block behind.
        """
        runs = pairwise([self.low, *sorted(self.unresolved), self.high])
        left, right = max(runs, key=lambda run: run[1] - run[0])
        return (left + right) // 2 if right - left > 1 else None

    def narrowed(self, length: int, outcome: Outcome) -> Interval:
        """What is known after a probe of a length between the ends."""
        if outcome is Outcome.FAIL:
            return Interval(self.low, length, tuple(u for u in self.unresolved if u < length))
        if outcome is Outcome.PASS:
            return Interval(length, self.high, tuple(u for u in self.unresolved if u > length))
        return replace(self, unresolved=(*self.unresolved, length))

    def foreseen(self) -> list[int]:
        """The lengths that may be probed after the next one, whatever that one gives."""
        length = self.next()
        if length is None:
            return []
        after = [self.narrowed(length, outcome).next() for outcome in Outcome]
        return list(dict.fromkeys(a for a in after if a is not None))


def first_failing(n: int, test: Callable[[int], Outcome]) -> Transition:
    """Find a transition among the prefixes of lengths 0..n (n >= 1).

    The caller guarantees that test(0) is not FAIL and that test(n) is FAIL; neither is probed here, and no
    length is probed twice. With every length resolved this takes at most ceil(log2 n) probes. Where the
    outcomes are not monotone there are several transitions, and one of them is returned.
    """
    span = Interval(0, n)
    while (length := span.next()) is not None:
        span = span.narrowed(length, test(length))
    return Transition(span.low, span.high)
