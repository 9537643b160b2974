import random
from collections.abc import Callable
from itertools import permutations
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MemoizedTest, MinimalSet, minimal_set, one_minimal
from tests.core.helpers import (
    FAIL,
    PASS,
    UNRESOLVED,
    Counted,
    Subset,
    antichains,
    any_of,
    arbitrary,
    assert_proved,
    names,
    subsets,
    unresolved_where,
)


def search(elements: tuple[str, ...], truth: Callable[[Subset], Outcome]) -> tuple[MinimalSet, Counted]:
    counted = Counted(truth)
    return minimal_set(elements, counted), counted


@pytest.mark.parametrize("n", range(1, 9))
def test_every_culprit_set_is_found_and_proved(n: int) -> None:
    elements = names(n)
    for culprit in subsets(elements):
        if culprit:
            found, counted = search(elements, any_of(culprit))
            assert frozenset(found.members) == culprit
            assert found.confirmed
            assert_proved(found, elements, counted)


@pytest.mark.parametrize("n", range(1, 5))
def test_with_several_culprit_sets_one_of_them_is_found(n: int) -> None:
    elements = names(n)
    for culprits in antichains(elements):
        found, counted = search(elements, any_of(*culprits))
        assert frozenset(found.members) in culprits
        assert_proved(found, elements, counted)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(1, 24), with_unresolved=st.booleans())
def test_a_test_without_any_order_still_gives_a_set_that_is_minimal_as_probed(
    seed: int, n: int, with_unresolved: bool
) -> None:
    elements = names(n)
    outcomes = list(Outcome) if with_unresolved else [PASS, FAIL]
    found, counted = search(elements, arbitrary(seed, elements, outcomes=outcomes, ends=(PASS, FAIL)))
    assert_proved(found, elements, counted)
    assert found.confirmed == (UNRESOLVED not in found.without_each)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(1, 24))
def test_no_set_is_asked_twice_and_the_ends_are_not_asked_at_all(seed: int, n: int) -> None:
    elements = names(n)
    truth = arbitrary(seed, elements, outcomes=list(Outcome), ends=(PASS, FAIL))
    _, counted = search(elements, truth)
    assert len(counted.asked) == len(set(counted.asked))
    assert frozenset() not in counted.asked
    assert frozenset(elements) not in counted.asked


@pytest.mark.parametrize(("size", "at_most_in_the_median"), [(1, 12), (2, 23), (3, 33), (4, 43)])
def test_few_probes_find_and_prove_a_culprit_set_among_512(size: int, at_most_in_the_median: int) -> None:
    elements = names(512)
    draw = random.Random(size)
    totals = []
    for _ in range(200):
        culprit = frozenset(draw.sample(elements, size))
        found, counted = search(elements, any_of(culprit))
        assert frozenset(found.members) == culprit
        assert_proved(found, elements, counted)
        totals.append(len({*counted.asked, frozenset(), frozenset(elements)}))
    assert median(totals) <= at_most_in_the_median
    # Two ends; for each member a bisection and the set so far alone; all but one once more without a member.
    assert max(totals) <= 2 + size * (9 + 1) + (size - 1)


def test_a_likely_set_that_holds_the_culprits_saves_the_bisection_outside_of_it() -> None:
    elements = names(512)
    culprit = frozenset(elements[300:302])
    likely = [frozenset(elements[300:301]), frozenset(elements[298:306])]
    counted = Counted(any_of(culprit))
    found = minimal_set(elements, counted, likely=likely)
    assert frozenset(found.members) == culprit
    assert_proved(found, elements, counted)
    assert len(counted.asked) <= 10  # without it a bisection of 512 for each of the two


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(1, 16), data=st.data())
def test_a_likely_set_that_is_wrong_costs_one_probe_and_changes_no_proof(
    seed: int, n: int, data: st.DataObject
) -> None:
    elements = names(n)
    likely = [data.draw(st.frozensets(st.sampled_from(elements)))]
    counted = Counted(arbitrary(seed, elements, outcomes=list(Outcome), ends=(PASS, FAIL)))
    found = minimal_set(elements, counted, likely=likely)
    assert_proved(found, elements, counted)
    assert len(counted.asked) == len(set(counted.asked))


def test_a_member_that_crashes_when_left_out_is_unseparated() -> None:
    elements = ("load", "cast", "store", "fuse")
    crashes_alone = unresolved_where(lambda members: members == {"fuse"}, any_of({"fuse"}))
    needs_cast = unresolved_where(lambda members: "fuse" in members and "cast" not in members, crashes_alone)
    found, counted = search(elements, needs_cast)
    assert found == MinimalSet(("cast", "fuse"), FAIL, (UNRESOLVED, PASS))
    assert found.unseparated == ("cast",)
    assert not found.confirmed
    assert_proved(found, elements, counted)


def test_a_range_of_suspects_is_reduced_to_the_culprit_inside_by_halves() -> None:
    elements = names(128)
    culprit, start, end = elements[55], elements[40], elements[80]
    # What `start` begins and `end` does not finish crashes, so the prefixes of 41 to 80 elements do.
    half_done = unresolved_where(lambda members: start in members and end not in members, any_of({culprit}))
    found, counted = search(elements, half_done)
    assert found == MinimalSet((culprit,), FAIL, (PASS,))
    assert_proved(found, elements, counted)
    assert len(counted.asked) <= 40 + 25  # the first 40 are the prefixes that crash


def test_one_bad_element_that_crashes_wherever_it_is_does_not_hide_the_culprit() -> None:
    elements = names(16)

    def crashes_with(bad: str) -> Callable[[Subset], bool]:
        return lambda members: bad in members and members != frozenset(elements)

    for bad, guilty in permutations(elements, 2):
        found, counted = search(elements, unresolved_where(crashes_with(bad), any_of({guilty})))
        assert guilty in found.members
        assert_proved(found, elements, counted)


def test_when_nothing_but_the_whole_can_be_judged_all_of_it_is_reported_unseparated() -> None:
    elements = names(8)
    truth = unresolved_where(lambda members: 0 < len(members) < 8, any_of(elements))
    found, counted = search(elements, truth)
    assert found.members == elements
    assert found.unseparated == elements
    assert_proved(found, elements, counted)


def test_the_outcome_of_nothing_is_taken_as_the_caller_probed_it() -> None:
    found = minimal_set(("a", "b"), any_of({"b"}), nothing=UNRESOLVED)
    assert found == MinimalSet(("b",), FAIL, (UNRESOLVED,))
    assert found.unseparated == ("b",)


def test_a_search_for_a_repair_is_the_search_upside_down() -> None:
    denied = {frozenset(): FAIL, frozenset("a"): FAIL, frozenset("b"): FAIL, frozenset("ab"): PASS}
    found = minimal_set("ab", lambda members: denied[members].inverted()).inverted()
    assert found == MinimalSet(("a", "b"), PASS, (FAIL, FAIL))
    assert found.confirmed


def test_a_member_that_became_needless_by_a_later_drop_is_dropped_too() -> None:
    # Without `a` alone it PASSes, so `a` stays at first; `b` goes; then `a` is not needed any more.
    failing = [frozenset("abc"), frozenset("ac"), frozenset("c")]
    asked = MemoizedTest(lambda members: FAIL if members in failing else PASS)
    assert one_minimal("abc", asked) == MinimalSet(("c",), FAIL, (PASS,))


def test_large_chunks_drop_many_needless_members_at_once() -> None:
    elements = names(128)
    counted = Counted(any_of({elements[70]}))
    found = one_minimal(elements, MemoizedTest(counted), chunk=64)
    assert found.members == (elements[70],)
    assert len(counted.asked) <= 20
