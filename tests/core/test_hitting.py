import random
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.search.sets import minimal_hitting_sets
from tests.core.helpers import minimal_hitting, names

ELEMENTS = names(7)
FAMILIES = st.lists(st.lists(st.sampled_from(ELEMENTS), min_size=1, unique=True), max_size=6)


@settings(max_examples=300, deadline=None)
@given(FAMILIES)
def test_all_minimal_hitting_sets_come_once_and_smaller_ones_first(family: list[list[str]]) -> None:
    found = list(minimal_hitting_sets(family))
    assert set(found) == minimal_hitting(ELEMENTS, family)
    assert len(found) == len(set(found))
    assert [len(hitting) for hitting in found] == sorted(len(hitting) for hitting in found)


@settings(max_examples=300, deadline=None)
@given(FAMILIES, FAMILIES)
def test_none_that_contains_a_blocked_set_comes(family: list[list[str]], blocked: list[list[str]]) -> None:
    blocks = [frozenset(members) for members in blocked]
    expected = {
        hitting
        for hitting in minimal_hitting(ELEMENTS, family)
        if not any(block <= hitting for block in blocks)
    }
    assert set(minimal_hitting_sets(family, blocks)) == expected


def test_no_sets_are_hit_by_nothing() -> None:
    assert list(minimal_hitting_sets([])) == [frozenset()]


def test_the_first_ones_come_without_making_the_millions_of_others() -> None:
    disjoint = [[f"{i}a", f"{i}b", f"{i}c"] for i in range(20)]  # 3**20 minimal hitting sets
    assert [len(hitting) for hitting in islice(minimal_hitting_sets(disjoint), 50)] == [20] * 50


def test_the_first_ones_come_soon_where_the_sets_overlap() -> None:
    draw = random.Random(0)
    for _ in range(20):
        overlapping = [draw.sample(names(24), draw.randint(2, 4)) for _ in range(16)]
        assert len(list(islice(minimal_hitting_sets(overlapping), 16))) == 16
