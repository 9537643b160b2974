"""The ladder against a scan of the whole history, for any string of outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.ladder import (
    Bracket,
    RungEnds,
    climb,
    narrowed,
    walked_back,
)
from bisector.core.outcome import Outcome
from tests.core.helpers import FAIL, PASS, UNRESOLVED

inner = st.lists(st.sampled_from(Outcome), max_size=40)


class Killed(Exception):
    """The process ends here."""


class Builds:
    """A history whose builds are named by their position; counts what is tried. dies_after: probes."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes
        self.names = [str(i) for i in range(len(outcomes))]
        self.tried: list[str] = []
        self.journal: dict[str, Outcome] = {}
        self.dies_after: int | None = None

    def test(self, build: str) -> Outcome:
        if build not in self.journal:
            if self.dies_after == 0:
                raise Killed
            if self.dies_after is not None:
                self.dies_after -= 1
            self.tried.append(build)
            self.journal[build] = self.outcomes[int(build)]
        return self.journal[build]

    def bracket(self) -> Bracket:
        return Bracket(self.names[0], self.names[-1])


def is_true(history: Builds, found: Bracket) -> bool:
    """Whether it PASSes before and FAILs after, and all between, which is told, is UNRESOLVED."""
    low, high = int(found.before), int(found.after)
    between = history.outcomes[low + 1 : high]
    ends = (history.outcomes[low], history.outcomes[high]) == (PASS, FAIL)
    told = list(found.skipped) == history.names[low + 1 : high]
    return ends and told and all(o is UNRESOLVED for o in between)


@given(inner)
def test_whatever_the_outcomes_a_true_bracket_comes_back(outcomes: list[Outcome]) -> None:
    history = Builds([PASS, *outcomes, FAIL])
    found = narrowed(history.names[1:-1], history.bracket(), history.test)
    assert is_true(history, found)
    assert len(history.tried) == len(set(history.tried))


@given(st.integers(1, 60), st.data())
def test_one_change_among_resolved_builds_is_named_in_log2_steps(n: int, data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, n))
    history = Builds([PASS] * turn + [FAIL] * (n + 1 - turn))
    found = narrowed(history.names[1:-1], history.bracket(), history.test)
    assert found == Bracket(str(turn - 1), str(turn))
    assert len(history.tried) <= (n - 1).bit_length()


@given(inner)
@settings(max_examples=60)
def test_killed_at_any_step_and_resumed_it_says_the_same_and_tries_nothing_twice(
    outcomes: list[Outcome],
) -> None:
    whole = Builds([PASS, *outcomes, FAIL])
    answer = narrowed(whole.names[1:-1], whole.bracket(), whole.test)
    for kill in range(len(whole.tried)):
        history = Builds(whole.outcomes)
        history.dies_after = kill
        with pytest.raises(Killed):
            narrowed(history.names[1:-1], history.bracket(), history.test)
        history.dies_after = None
        assert narrowed(history.names[1:-1], history.bracket(), history.test) == answer
        assert history.tried == whole.tried


@given(inner)
def test_what_is_tried_next_was_foreseen(outcomes: list[Outcome]) -> None:
    history = Builds([PASS, *outcomes, FAIL])
    foreseen: list[Sequence[str]] = []
    narrowed(history.names[1:-1], history.bracket(), history.test, foreseen.append)
    for build, before in zip(history.tried[1:], foreseen, strict=False):
        assert build in before


@given(inner)
def test_walking_back_gives_a_true_bracket_or_the_oldest_that_fails(outcomes: list[Outcome]) -> None:
    history = Builds([*outcomes, FAIL])
    found = walked_back(history.names, history.test)
    if isinstance(found, str):
        assert history.outcomes[int(found)] is FAIL
        assert PASS not in history.journal.values()
        assert "0" in history.tried or not outcomes
        assert all(o is not FAIL for b, o in history.journal.items() if int(b) < int(found))
        assert found == "0" or history.journal[str(int(found) - 1)] is UNRESOLVED
    else:
        assert (history.journal[found.before], history.outcomes[int(found.after)]) == (PASS, FAIL)
        assert all(history.journal[b] is UNRESOLVED for b in found.skipped)
    assert len(history.tried) <= 2 * (len(outcomes).bit_length() + 1)


class Part:
    """A rung that has every `stride`-th build of a history; none at all where it ends."""

    def __init__(self, name: str, history: Builds, stride: int, ends: str = "") -> None:
        self.name, self.history, self.stride, self.ends = name, history, stride, ends

    def between(self, bracket: Bracket) -> Sequence[str]:
        if self.ends:
            raise RungEnds(self.ends)
        inside = range(int(bracket.before) + 1, int(bracket.after))
        return [str(i) for i in inside if i % self.stride == 0]


GONE = Part("nightlies", Builds([]), 1, ends="gone")


@given(st.integers(1, 400), st.data())
def test_each_rung_goes_on_where_the_one_before_stopped(n: int, data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, n))
    history = Builds([PASS] * turn + [FAIL] * (n + 1 - turn))
    rungs = [Part("releases", history, 40), GONE, Part("commits", history, 1)]
    coarse, none, fine = climb(rungs, history.bracket(), history.test)
    assert int(coarse.bracket.after) - int(coarse.bracket.before) <= 40
    assert (none.bracket, none.ended) == (coarse.bracket, "gone")
    assert fine.bracket == Bracket(str(turn - 1), str(turn))
    assert len(history.tried) == len(set(history.tried))


def test_what_a_coarse_rung_skipped_is_told_until_a_finer_one_knows_better() -> None:
    history = Builds([PASS, UNRESOLVED, FAIL])
    steps = climb([Part("releases", history, 1), GONE], history.bracket(), history.test)
    assert [step.bracket.skipped for step in steps] == [("1",), ("1",)]
