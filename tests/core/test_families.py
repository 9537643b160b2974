"""Families of decisions, over truths that are written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.core.outcome import Outcome
from bisector.core.search.families import MATTERS, REST, Family, Members, Tried, family

CASTS = tuple(f"cast:{i}" for i in range(16))
VECS = tuple(f"vec:{i}" for i in range(5))
GROUPS = {"cast": CASTS, "vec": VECS}
# As they are in a graph: of each layer some casts and a loop.
ORDER = tuple(d for i in range(16) for d in (CASTS[i], *VECS[i // 4 : i // 4 + 1 if i % 4 == 0 else 0]))
ORDER = (*ORDER, VECS[4])


class World:
    """Denying a set removes the sum of its shares; nothing is left within the tolerance from `enough` on."""

    def __init__(self, share: Callable[[str], float], enough: float = 0.95) -> None:
        self.share, self.enough = share, enough
        self.asked: list[Members] = []

    def __call__(self, sets: Sequence[Members]) -> list[Tried]:
        assert len(sets) <= 2 and not set(sets) & set(self.asked)
        self.asked += sets
        return [self.tried(members) for members in sets]

    def tried(self, members: Members) -> Tried:
        removed = min(1.0, sum(map(self.share, members)))
        passes = removed >= self.enough
        return Tried(members, Outcome.PASS if passes else Outcome.FAIL, 1.0 if passes else removed)


def found_in(world: World, most: int = 8, groups: dict[str, Members] = GROUPS) -> Family | None:
    return family(groups, ORDER, world, most)


def evenly(kind: str, count: int) -> World:
    return World(lambda member: 1 / count if member.startswith(kind) else 0.0)


def test_of_a_group_whose_every_member_carries_a_little_no_half_repairs() -> None:
    world = evenly("cast", len(CASTS))
    found = found_in(world)
    assert found is not None
    assert (found.groups, found.members, found.removed) == (("cast",), CASTS, 1.0)
    assert [half.removed for half in found.halves] == [0.5, 0.5]
    assert len(world.asked) == 5


def test_one_group_alone_is_asked_three_questions() -> None:
    world = evenly("cast", len(CASTS))
    found = found_in(world, groups={"cast": CASTS})
    assert found is not None and found.members == CASTS and len(world.asked) == 3


def test_another_group_than_the_likeliest_is_found() -> None:
    found = found_in(evenly("vec", len(VECS)))
    assert found is not None and found.groups == ("vec",)
    assert found.members == VECS and [half.removed for half in found.halves] == pytest.approx([0.6, 0.4])


def test_where_it_takes_two_groups_both_are_the_family_in_the_order_of_the_graph() -> None:
    world = World(lambda member: 0.6 / len(CASTS) if member.startswith("cast") else 0.4 / len(VECS))
    found = found_in(world)
    assert found is not None and found.groups == ("cast", "vec")
    assert found.members == ORDER and len(found.halves) == 2
    assert found.without == {"cast": pytest.approx(0.4), "vec": pytest.approx(0.6)}
    assert len(world.asked) <= 6


def test_where_nothing_repairs_all_that_carries_something_is_told_with_the_share_of_each() -> None:
    world = World(lambda member: 0.03 if member.startswith("cast") else 0.01)
    found = found_in(world)
    assert found is not None and not found.repairs
    assert (found.groups, found.members, found.halves) == (("cast", "vec"), ORDER, ())
    assert found.removed == pytest.approx(0.53)
    assert found.alone == {"cast": pytest.approx(0.48), "vec": pytest.approx(0.05)}


def test_what_the_groups_leave_is_looked_for_among_all_others() -> None:
    world = World(lambda member: 0.9 / len(CASTS) if member.startswith("cast") else 0.1 / len(VECS))
    found = family({"cast": CASTS}, ORDER, world, 8, rest=VECS)
    assert found is not None and found.repairs and found.groups == ("cast", REST)
    assert found.members == ORDER and found.without["cast"] == pytest.approx(0.1)
    found = family({"cast": CASTS}, ORDER, evenly("cast", len(CASTS)), 8, rest=VECS)
    assert found is not None and found.groups == ("cast",)  # nothing more is asked for


def test_where_nothing_carries_much_there_is_no_family() -> None:
    assert found_in(World(lambda member: 0.005)) is None
    assert found_in(World(lambda member: 0.01), groups={"cast": CASTS}) is None
    assert found_in(World(lambda member: 1.0), groups={}) is None


@pytest.mark.parametrize("needed", [("cast:3",), ("cast:12", "cast:15"), ("cast:8", "cast:9", "cast:11")])
def test_a_few_that_carry_all_are_looked_for_in_the_half_that_repairs(needed: tuple[str, ...]) -> None:
    world = World(lambda member: 1 / len(needed) if member in needed else 0.0)
    found = found_in(world, most=20)
    assert found is not None and found.repairs and set(needed) <= set(found.members)
    assert len(found.members) <= 4


shares = st.dictionaries(st.sampled_from((*CASTS, *VECS)), st.floats(0, 1))


@given(shares, st.integers(2, 12))
def test_what_is_called_a_family_was_seen_to_repair_and_of_its_halves_that_none_does(
    drawn: dict[str, float], most: int
) -> None:
    world = World(lambda member: drawn.get(member, 0.0))
    found = found_in(world, most)
    assert len(world.asked) <= most
    if found is None:
        assert not world.tried(ORDER).repairs and world.tried(ORDER).removed < MATTERS
        return
    assert found.members in world.asked and world.tried(found.members).removed == found.removed
    assert {name for name in GROUPS if set(GROUPS[name]) & set(found.members)} == set(found.groups)
    for half in found.halves:
        assert half.members in world.asked and not half.repairs
    if found.halves:
        assert sorted(found.halves[0].members + found.halves[1].members) == sorted(found.members)


@given(shares)
def test_where_all_groups_together_repair_a_family_that_repairs_is_found(drawn: dict[str, float]) -> None:
    world = World(lambda member: drawn.get(member, 0.0))
    if world.tried(ORDER).repairs:
        found = found_in(world)
        assert found is not None and found.repairs
