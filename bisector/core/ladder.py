"""Down a history of builds, from releases to single commits, to the change that turned a divergence on.

A history is a sequence of builds, oldest first, that a rung of the ladder lists. The test gives a build's
outcome; to look for the change that fixed a divergence, give the test inverted. Nothing here knows what a
build is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .outcome import Outcome
from .search.ordered import Interval

Test = Callable[[str], Outcome]
Foresee = Callable[[Sequence[str]], None]  # of builds that may be asked for soon


@dataclass(frozen=True)
class Bracket:
    """The change came after `before`, which PASSes, and no later than `after`, which FAILs.

    skipped: the builds between them that were tried and are UNRESOLVED, oldest first.
    """

    before: str
    after: str
    skipped: tuple[str, ...] = ()


class RungEnds(Exception):
    """This rung has nothing to say about a bracket; reason says why, for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Rung(Protocol):
    """One way to have builds: releases, nightlies, commits."""

    name: str

    def between(self, bracket: Bracket) -> Sequence[str]:
        """The builds after `before` and before `after`, oldest first. Raises RungEnds where it knows none."""
        ...


@dataclass(frozen=True)
class Step:
    """What one rung did. candidates: how many builds it had between the ends; bracket: what was left.

    ended: why it had none, empty where it did its work.
    """

    rung: str
    candidates: int
    bracket: Bracket
    ended: str = ""


def climb(
    rungs: Sequence[Rung], start: Bracket, test: Test, foresee: Foresee | None = None
) -> Iterator[Step]:
    """One step for each rung, from the coarsest on; the bracket of the last is the answer.

    No build is tried twice that another rung tried before, if the test remembers. BudgetSpent from the test
    passes through: the steps made until then stand.
    """
    bracket = start
    for rung in rungs:
        try:
            builds = rung.between(bracket)
        except RungEnds as end:
            yield Step(rung.name, 0, bracket, end.reason)
            continue
        bracket = narrowed(builds, bracket, test, foresee)
        yield Step(rung.name, len(builds), bracket)


def narrowed(
    builds: Sequence[str], bracket: Bracket, test: Test, foresee: Foresee | None = None
) -> Bracket:
    """The bracket cut down to two builds with nothing between them but what is UNRESOLVED.

    foresee: gets, before each test, what may be asked next, so that it can be fetched meanwhile.
    """
    line = [bracket.before, *builds, bracket.after]
    span = Interval(0, len(line) - 1)
    while (at := span.next()) is not None:
        if foresee is not None:
            foresee([line[i] for i in span.foreseen()])
        span = span.narrowed(at, test(line[at]))
    skipped = tuple(line[span.low + 1 : span.high])
    return Bracket(line[span.low], line[span.high], skipped) if builds else bracket


def walked_back(builds: Sequence[str], test: Test) -> Bracket | str:
    """The nearest bracket that growing steps back from the last build find; that one is known to FAIL.

    The oldest build found to FAIL where none that was tried PASSes: it was bad as far back as that. The one
    before it is UNRESOLVED then, or there is none.
    """
    fails = len(builds) - 1
    skipped = [-1]  # stands before the oldest
    steps = _back_from(fails)
    while (at := next(steps, None)) is not None or (at := _halfway(skipped, fails)) is not None:
        outcome = test(builds[at])
        if outcome is Outcome.PASS:
            between = tuple(builds[i] for i in sorted(skipped) if at < i < fails)
            return Bracket(builds[at], builds[fails], between)
        if outcome is Outcome.FAIL:
            fails = at
        else:
            skipped.append(at)
    return builds[fails]


def _back_from(last: int) -> Iterator[int]:
    step = 1
    while step < last:
        yield last - step
        step *= 2
    if last > 0:
        yield 0


def _halfway(skipped: Sequence[int], fails: int) -> int | None:
    """Between the oldest that FAILs and what is UNRESOLVED before it, so that builds too old to tell do not
    hide those that can. None where they are neighbours."""
    unresolved = max(i for i in skipped if i < fails)
    return (fails + unresolved) // 2 if fails - unresolved > 1 else None
