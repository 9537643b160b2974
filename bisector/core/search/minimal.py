"""Asking several sets at once, where the machine has lanes to spare.

A bisection asks one question at a time; with two lanes the second would idle. So a test may offer to
probe sets ahead: it answers them from memory when, and if, the search comes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bisector.core.model import Outcome
from bisector.core.search.ordered import Transition, first_failing

Members = frozenset[str]
Test = Callable[[Members], Outcome]


@runtime_checkable
class Parallel(Protocol):
    """A test that can probe `lanes` sets side by side."""

    lanes: int

    def __call__(self, members: Members) -> Outcome: ...

    def ahead(self, sets: Sequence[Members]) -> None:
        """Probe these now; a later call for one of them answers from memory."""


class Inverted:
    """A test upside down, its lanes kept: a search for repairs is a search for causes upside down."""

    def __init__(self, test: Test) -> None:
        self._test = test
        self.lanes = test.lanes if isinstance(test, Parallel) else 1

    def __call__(self, members: Members) -> Outcome:
        return self._test(members).inverted()

    def ahead(self, sets: Sequence[Members]) -> None:
        if isinstance(self._test, Parallel):
            self._test.ahead(sets)


@dataclass(frozen=True)
class MinimalSet:
    """A 1-minimal set and the probes that prove it.

    alone: the outcome of exactly these members.
    without_each: for each member, the outcome of the set without it. Never equal to `alone`; UNRESOLVED where
    it could not be judged whether the member is needed.
    """

    members: tuple[str, ...]
    alone: Outcome
    without_each: tuple[Outcome, ...]

    @property
    def unseparated(self) -> tuple[str, ...]:
        """The members that may be there only because the set without them could not be judged."""
        pairs = zip(self.members, self.without_each, strict=True)
        return tuple(member for member, without in pairs if without is Outcome.UNRESOLVED)

    @property
    def confirmed(self) -> bool:
        """Whether the set works alone and each member is proved to be needed."""
        return not self.unseparated

    def inverted(self) -> MinimalSet:
        """The same set in the words of the test whose inverse was searched."""
        return MinimalSet(
            self.members, self.alone.inverted(), tuple(outcome.inverted() for outcome in self.without_each)
        )


class MemoizedTest:
    """A test that is asked once for each set. `known` holds outcomes that were probed before."""

    def __init__(self, test: Test, known: Iterable[tuple[Iterable[str], Outcome]] = ()) -> None:
        self._test = test
        self.lanes = test.lanes if isinstance(test, Parallel) else 1
        self._known = {frozenset(members): outcome for members, outcome in known}

    def __call__(self, members: frozenset[str]) -> Outcome:
        if members not in self._known:
            self._known[members] = self._test(members)
        return self._known[members]

    def knows(self, members: frozenset[str]) -> bool:
        return members in self._known

    def ahead(self, sets: Iterable[frozenset[str]]) -> None:
        """Let a test with several lanes probe what is not known yet, side by side."""
        if isinstance(self._test, Parallel) and self.lanes > 1:
            self._test.ahead([s for s in sets if s not in self._known])


def minimal_set(
    elements: Sequence[str],
    test: Test,
    nothing: Outcome = Outcome.PASS,
    likely: Sequence[frozenset[str]] = (),
) -> MinimalSet:
    """Find one 1-minimal set that FAILs.

    elements: all different, in the order in which the bisection cuts prefixes; members keep that order.
    test: the outcome of a set of elements. The caller has probed that all elements together FAIL and that
    the empty set does not; neither is probed again. `nothing` is what the empty set gave.
    likely: sets, the smallest first, that are worth a probe each before any bisection: it then takes place
    inside the first that FAILs.

    A set of k members costs about k * (log2 n + 1) probes and k - 1 more for the proof, no set being asked
    twice. A test that is not monotone gives a set that is 1-minimal all the same, as every outcome that the
    answer rests on was probed; UNRESOLVED ones can leave members unseparated.
    """
    ask = MemoizedTest(test, [((), nothing), (elements, Outcome.FAIL)])
    context: list[str] = []
    prefix = _narrowed(list(elements), ask, likely)
    widest = 1
    # Here context and prefix together FAIL, so the loop ends when the prefix is used up, if not before.
    while ask(frozenset(context)) is not Outcome.FAIL:
        turn = _turn(ask, context, prefix)
        # The context FAILs with the suspects and the elements before them, and not without the suspects.
        suspects = prefix[turn.last_pass : turn.first_fail]
        context = suspects + context
        prefix = prefix[: turn.last_pass]
        widest = max(widest, len(suspects))
    return one_minimal(context, ask, chunk=max(1, widest // 2))


def _narrowed(elements: list[str], ask: MemoizedTest, likely: Sequence[frozenset[str]]) -> list[str]:
    """The elements of the first likely set that FAILs; all of them where none does."""
    parts = [[e for e in elements if e in some] for some in likely]
    parts = [part for part in parts if 0 < len(part) < len(elements)]
    for start in range(0, len(parts), ask.lanes):
        some = parts[start : start + ask.lanes]
        ask.ahead(map(frozenset, some))
        if (found := next((p for p in some if ask(frozenset(p)) is Outcome.FAIL), None)) is not None:
            return found
    return elements


def one_minimal(members: Sequence[str], ask: MemoizedTest, chunk: int = 1) -> MinimalSet:
    """Drop members of a set that FAILs until none can be dropped.

    chunk: how many to try at once at first; more than one pays where many are expected to be needless.
    """
    kept = list(members)
    while chunk > 1:
        kept = _without_needless(kept, ask, chunk)
        chunk //= 2
    # When one is dropped an earlier one can become needless, so singles go round until all of them stay.
    while (fewer := _without_each_ahead(kept, ask)) != kept:
        kept = fewer
    without_each = tuple(ask(frozenset(kept) - {member}) for member in kept)
    return MinimalSet(tuple(kept), ask(frozenset(kept)), without_each)


def _without_each_ahead(members: list[str], ask: MemoizedTest) -> list[str]:
    """One round of singles; all are asked ahead, since mostly all stay and all are needed as proof."""
    if len(members) > 1:
        ask.ahead(frozenset(members) - {member} for member in members)
    return _without_needless(members, ask, 1)


def _turn(ask: MemoizedTest, context: list[str], prefix: list[str]) -> Transition:
    """Where the prefixes, each with the context, turn to FAIL."""
    members = _with_context(context, prefix)

    def test(length: int) -> Outcome:
        return ask(members(length))

    def ahead(lengths: list[int]) -> None:
        ask.ahead(map(members, lengths))

    return first_failing(len(prefix), test, ask.lanes, ahead)


def _with_context(context: list[str], prefix: list[str]) -> Callable[[int], frozenset[str]]:
    return lambda length: frozenset(prefix[:length] + context)


def _without_needless(members: list[str], ask: MemoizedTest, chunk: int) -> list[str]:
    """Leave out each run of `chunk` members in turn, for good where the rest still FAILs."""
    start = 0
    while start < len(members):
        rest = members[:start] + members[start + chunk :]
        if ask(frozenset(rest)) is Outcome.FAIL:
            members = rest
        else:
            start += chunk
    return members
