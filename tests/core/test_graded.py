"""Shares of a divergence whose size is given by one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.core.search.graded import TOLERANCE, Members, graded

WEIGHTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 100), min_size=2)


class Asked:
    def __init__(self, removed) -> None:  # type: ignore[no-untyped-def]
        self.removed = removed
        self.sets: list[Members] = []

    def __call__(self, members: Members) -> float | None:
        self.sets.append(members)
        found: float | None = self.removed(members)
        return found


def summing(weights: dict[str, int]) -> Asked:
    total = sum(weights.values())
    return Asked(lambda members: sum(weights[m] for m in members) / total)


@given(WEIGHTS)
def test_what_is_a_sum_adds_up_and_looks_the_same_from_both_ends(weights: dict[str, int]) -> None:
    found = graded(list(weights), summing(weights), most=8, largest=8, known=1.0, others=True)
    assert found.adds_up is True
    removed = [share.removed for share in found.shares]
    assert removed == sorted(removed, reverse=True)
    assert [share.left for share in found.shares] == pytest.approx(removed)


@given(WEIGHTS, st.integers(1, 8), st.integers(1, 8))
def test_the_largest_of_those_tried_are_kept_at_a_probe_each(
    weights: dict[str, int], most: int, largest: int
) -> None:
    removed = summing(weights)
    found = graded(list(weights), removed, most, largest, known=1.0)
    assert len(removed.sets) <= min(most, len(weights)) + 1
    tried = sorted((weights[e] for e in list(weights)[:most]), reverse=True)
    assert [weights[share.decision] for share in found.shares] == tried[:largest]
    assert found.left_out == len(weights) - len(found.shares)


def test_two_that_only_count_together_do_not_add_up() -> None:
    found = graded("ab", Asked(lambda members: float(len(members) == 2)), most=8, largest=8)
    assert [share.removed for share in found.shares] == [0.0, 0.0]
    assert (found.together, found.adds_up) == (1.0, False)


def test_shares_that_overlap_do_not_add_up() -> None:
    found = graded("ab", Asked(lambda members: 0.9 if members else 0.0), most=8, largest=8, known=1.0)
    assert found.adds_up is False


def test_sums_as_near_as_the_tolerance_add_up() -> None:
    for off, adds_up in ((0.9 * TOLERANCE, True), (1.1 * TOLERANCE, False)):
        share = (1.0 - off) / 2
        found = graded("ab", Asked(lambda members, share=share: share), most=8, largest=8, known=1.0)
        assert found.adds_up is adds_up


def test_what_cannot_be_judged_is_left_out_and_never_taken_for_nothing() -> None:
    found = graded("abc", Asked(lambda members: None if "b" in members else 0.5), most=8, largest=8)
    assert [share.decision for share in found.shares] == ["a", "c"]
    assert found.left_out == 1
    assert graded("ab", Asked(lambda members: None), most=8, largest=8).adds_up is None


def test_where_the_sum_cannot_be_judged_nothing_is_said_of_it() -> None:
    found = graded("ab", Asked(lambda m: 0.5 if len(m) == 1 else None), most=8, largest=8)
    assert (found.together, found.adds_up) == (None, None)
