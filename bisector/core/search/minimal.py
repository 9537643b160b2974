"""A minimal set that FAILs, by bisection over an ordered axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bisector.core.outcome import Outcome
from bisector.core.search.ordered import Transition, first_failing

E = TypeVar("E", bound=str)  # an element of the sets: a decision, or the name of a group or a call
Members = frozenset[E]
Test = Callable[[Members[E]], Outcome]


class Inverted(Generic[E]):
    """A test upside down: a search for repairs is a search for causes upside down."""

    def __init__(self, test: Test[E]) -> None:
        self._test = test

    def __call__(self, members: Members[E]) -> Outcome:
        return self._test(members).inverted()


@dataclass(frozen=True)
class MinimalSet(Generic[E]):
    """A 1-minimal set and the probes that prove it.

    alone: the outcome of exactly these members.
    without_each: for each member, the outcome of the set without it. Never equal to `alone`; UNRESOLVED where
    it could not be judged whether the member is needed.
    """

    members: tuple[E, ...]
    alone: Outcome
    without_each: tuple[Outcome, ...]

    @property
    def unseparated(self) -> tuple[E, ...]:
        """The members that may be there only because the set without them could not be judged."""
        pairs = zip(self.members, self.without_each, strict=True)
        return tuple(member for member, without in pairs if without is Outcome.UNRESOLVED)

    @property
    def confirmed(self) -> bool:
        """Whether the set works alone and each member is proved to be needed."""
        return not self.unseparated

    def inverted(self) -> MinimalSet[E]:
        """The same set in the words of the test whose inverse was searched."""
        return MinimalSet(
            self.members, self.alone.inverted(), tuple(outcome.inverted() for outcome in self.without_each)
        )


class MemoizedTest(Generic[E]):
    """A test that is asked once for each set. `known` holds outcomes that were probed before."""

    def __init__(self, test: Test[E], known: Iterable[tuple[Iterable[E], Outcome]] = ()) -> None:
        self._test = test
        self._known = {frozenset(members): outcome for members, outcome in known}

    def __call__(self, members: Members[E]) -> Outcome:
        if members not in self._known:
            self._known[members] = self._test(members)
        return self._known[members]

    def knows(self, members: Members[E]) -> bool:
        return members in self._known


def minimal_set(
    elements: Sequence[E],
    test: Test[E],
    nothing: Outcome = Outcome.PASS,
    likely: Sequence[Members[E]] = (),
) -> MinimalSet[E]:
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
    context: list[E] = []
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


def _narrowed(elements: list[E], ask: MemoizedTest[E], likely: Sequence[Members[E]]) -> list[E]:
    """The elements of the first likely set that FAILs; all of them where none does."""
    parts = [[e for e in elements if e in some] for some in likely]
    parts = [part for part in parts if 0 < len(part) < len(elements)]
    return next((part for part in parts if ask(frozenset(part)) is Outcome.FAIL), elements)


def one_minimal(members: Sequence[E], ask: MemoizedTest[E], chunk: int = 1) -> MinimalSet[E]:
    """Drop members of a set that FAILs until none can be dropped.

    chunk: how many to try at once at first; more than one pays where many are expected to be needless.
    """
    kept = list(members)
    while chunk > 1:
        kept = _without_needless(kept, ask, chunk)
        chunk //= 2
    # When one is dropped an earlier one can become needless, so singles go round until all of them stay.
    while (fewer := _without_needless(kept, ask, 1)) != kept:
        kept = fewer
    without_each = tuple(ask(frozenset(kept) - {member}) for member in kept)
    return MinimalSet(tuple(kept), ask(frozenset(kept)), without_each)


def _turn(ask: MemoizedTest[E], context: list[E], prefix: list[E]) -> Transition:
    """Where the prefixes, each with the context, turn to FAIL."""
    return first_failing(len(prefix), lambda length: ask(frozenset(prefix[:length] + context)))


def _without_needless(members: list[E], ask: MemoizedTest[E], chunk: int) -> list[E]:
    """Leave out each run of `chunk` members in turn, for good where the rest still FAILs."""
    start = 0
    while start < len(members):
        rest = members[:start] + members[start + chunk :]
        if ask(frozenset(rest)) is Outcome.FAIL:
            members = rest
        else:
            start += chunk
    return members
