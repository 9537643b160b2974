"""Asking several sets at once, where the machine has lanes to spare.

A bisection asks one question at a time; with two lanes the second would idle. So a test may offer to
probe sets ahead: it answers them from memory when, and if, the search comes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from bisector.core.model import Outcome

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
