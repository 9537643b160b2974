"""Families of decisions, over truths that are written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.core.model import Outcome
from bisector.core.search.families import Family, Members, Tried, family

CASTS = tuple(f"cast:{i}" for i in range(16))
VECS = tuple(f"vec:{i}" for i in range(5))
GROUPS = {"cast": CASTS, "vec": VECS}


class World:
    """Denying a set removes the sum of its shares; nothing is left within the tolerance from `enough` on."""

    def __init__(self, share: Callable[[str], float], enough: float = 0.95) -> None:
        self.share, self.enough = share, enough
        self.asked: list[Members] = []

    def __call__(self, sets: Sequence[Members]) -> list[Tried]:
        assert len(sets) <= 2
        self.asked += sets
        return [self._tried(members) for members in sets]

    def _tried(self, members: Members) -> Tried:
        removed = min(1.0, sum(map(self.share, members)))
        return Tried(members, Outcome.PASS if removed >= self.enough else Outcome.FAIL, removed)


def evenly(kind: str, count: int) -> World:
    return World(lambda member: 1 / count if member.startswith(kind) else 0.0)


def test_of_a_kind_whose_every_member_carries_a_little_each_quarter_is_needed() -> None:
    world = evenly("cast", len(CASTS))
    found = family(GROUPS, world, 6)
    assert found is not None
    assert (found.group, found.members, found.removed) == ("cast", CASTS, 1.0)
    assert [rest.removed for rest in found.rests] == [0.75] * 4
    assert len(world.asked) == 6 and found.others == {"vec": 0.0}


def test_another_kind_than_the_likeliest_is_found_with_what_the_likeliest_removes() -> None:
    world = World(lambda member: 0.2 if member.startswith("vec") else 0.0)
    found = family(GROUPS, world, 6)
    assert found is not None and found.group == "vec" and found.others == {"cast": 0.0}


def test_where_it_takes_two_kinds_both_are_the_family() -> None:
    world = World(lambda member: 0.5 / len(CASTS) if member.startswith("cast") else 0.5 / len(VECS))
    found = family(GROUPS, world, 8)
    assert found is not None and found.group is None
    assert found.members == (*CASTS, *VECS)


def test_where_nothing_repairs_the_group_that_carries_most_is_the_family() -> None:
    found = family(GROUPS, World(lambda member: 0.03 if member.startswith("cast") else 0.001), 6)
    assert found is not None and not found.repairs
    assert (found.group, found.members, found.rests) == ("cast", CASTS, ())
    assert found.removed == pytest.approx(0.48) and found.others == {"vec": pytest.approx(0.005)}


def test_where_nothing_carries_much_there_is_no_family() -> None:
    assert family(GROUPS, World(lambda member: 0.005), 6) is None
    assert family({"cast": CASTS}, World(lambda member: 0.01), 6) is None
    assert family({}, World(lambda member: 1.0), 6) is None


@pytest.mark.parametrize("needed", [("cast:3",), ("cast:0", "cast:15"), ("cast:1", "cast:5", "cast:9")])
def test_a_few_that_carry_all_are_no_family(needed: tuple[str, ...]) -> None:
    world = World(lambda member: 1 / len(needed) if member in needed else 0.0)
    assert family(GROUPS, world, 20) is None


@given(st.dictionaries(st.sampled_from((*CASTS, *VECS)), st.floats(0, 1)), st.integers(2, 12))
def test_what_is_called_a_family_was_seen_to_repair_and_to_need_each_part(
    shares: dict[str, float], most: int
) -> None:
    world = World(lambda member: shares.get(member, 0.0))
    found: Family | None = family(GROUPS, world, most)
    assert len(world.asked) <= max(most, 3)
    if found is not None and found.repairs:
        assert world._tried(found.members).repairs and found.members in world.asked
        assert len(found.rests) == 4 and not any(rest.repairs for rest in found.rests)
        for member in found.members:
            assert not world._tried((member,)).repairs
