import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.budget import BudgetSpent
from bisector.core.endings import QuestionsSpent, SecondsSpent, SetsReached
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MinimalSet
from bisector.core.search.sets import SetsFound, all_sets, repairs_only
from bisector.core.search_notes import DeniedUnexplained, DeniedUnjudged, RestUnjudged
from tests.core.helpers import (
    FAIL,
    PASS,
    UNRESOLVED,
    Counted,
    Subset,
    antichains,
    any_of,
    arbitrary,
    as_sets,
    assert_proved,
    minimal_failing,
    minimal_hitting,
    mirror,
    names,
    subsets,
    unresolved_where,
)

EIGHT = ("cast", "inline", "fuse", "fma", "vec", "split", "unroll", "layout")


def mirrored(
    elements: tuple[str, ...], *culprits: Iterable[str], limit: int = 50
) -> tuple[SetsFound, Counted, Counted]:
    enabled = Counted(any_of(*culprits))
    denied = Counted(mirror(any_of(*culprits), elements))
    return all_sets(elements, enabled, denied, limit), enabled, denied


def members(found: Iterable[MinimalSet]) -> list[tuple[str, ...]]:
    return sorted(minimal.members for minimal in found)


def assert_no_gap(found: SetsFound) -> None:
    assert found.stopped_because is None
    assert found.unresolved == found.unexplained == found.rest_unresolved == ()
    assert all(minimal.confirmed for minimal in [*found.causes, *found.repairs])


def test_two_that_are_both_needed_are_one_cause_and_two_repairs() -> None:
    found, _, _ = mirrored(EIGHT, {"fma", "inline"})
    assert found.causes == (MinimalSet(("inline", "fma"), FAIL, (PASS, PASS)),)
    assert members(found.repairs) == [("fma",), ("inline",)]
    assert found.repairs[0].alone is PASS
    assert found.repairs[0].without_each == (FAIL,)
    assert_no_gap(found)


def test_two_of_which_either_suffices_are_two_causes_and_one_repair() -> None:
    found, _, _ = mirrored(EIGHT, {"fma"}, {"inline"})
    assert members(found.causes) == [("fma",), ("inline",)]
    assert found.repairs == (MinimalSet(("inline", "fma"), PASS, (FAIL, FAIL)),)
    assert_no_gap(found)


def test_an_elided_cast_that_needs_either_inlining_or_fusion() -> None:
    found, _, _ = mirrored(EIGHT, {"cast", "inline"}, {"cast", "fuse"})
    assert members(found.causes) == [("cast", "fuse"), ("cast", "inline")]
    assert members(found.repairs) == [("cast",), ("inline", "fuse")]
    assert_no_gap(found)


@pytest.mark.parametrize("n", range(1, 5))
def test_every_monotone_truth_gives_all_its_causes_and_all_its_repairs(n: int) -> None:
    elements = names(n)
    for culprits in antichains(elements):
        found, enabled, denied = mirrored(elements, *culprits)
        assert as_sets(found.causes) == set(culprits)
        assert as_sets(found.repairs) == minimal_hitting(elements, culprits)
        assert_no_gap(found)
        for cause in found.causes:
            assert_proved(cause, elements, enabled)
        for repair in found.repairs:
            assert_proved(repair, elements, denied, wanted=PASS)


CULPRITS = st.lists(st.sets(st.sampled_from(EIGHT), min_size=1), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(CULPRITS)
def test_overlapping_culprits_of_any_size_are_all_found_in_both_views(culprits: list[set[str]]) -> None:
    found, _, _ = mirrored(EIGHT, *culprits)
    assert as_sets(found.causes) == minimal_failing(EIGHT, any_of(*culprits))
    assert as_sets(found.repairs) == minimal_hitting(EIGHT, culprits)
    assert_no_gap(found)


@settings(max_examples=150, deadline=None)
@given(CULPRITS)
def test_without_a_plain_baseline_all_repairs_are_still_found(culprits: list[set[str]]) -> None:
    denied = Counted(mirror(any_of(*culprits), EIGHT))
    found = repairs_only(EIGHT, denied, limit=100)
    assert as_sets(found.repairs) == minimal_hitting(EIGHT, culprits)
    assert found.causes == ()
    assert_no_gap(found)
    for repair in found.repairs:
        assert_proved(repair, EIGHT, denied, wanted=PASS)


OUTCOMES: list[list[Outcome]] = [[PASS, FAIL], [PASS, FAIL, UNRESOLVED]]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(1, 8), outcomes=st.sampled_from(OUTCOMES))
def test_two_unrelated_truths_without_order_end_in_sets_that_are_minimal_as_probed(
    seed: int, n: int, outcomes: list[Outcome]
) -> None:
    elements = names(n)
    enabled = Counted(arbitrary(seed, elements, outcomes=outcomes, ends=(PASS, FAIL)))
    denied = Counted(arbitrary(seed + 1, elements, outcomes=outcomes, ends=(FAIL, PASS)))
    found = all_sets(elements, enabled, denied, limit=6)
    assert found.causes
    assert found.repairs or found.stopped_because is not None
    for cause in found.causes:
        assert_proved(cause, elements, enabled)
    for repair in found.repairs:
        assert_proved(repair, elements, denied, wanted=PASS)
    for view in (enabled, denied):
        assert len(view.asked) == len(set(view.asked))
        assert not {frozenset(), frozenset(elements)} & set(view.asked)
    for sets in (found.causes, found.repairs):
        assert len(as_sets(sets)) == len(sets) <= 6
    assert all(denied.truth(frozenset(hitting)) is UNRESOLVED for hitting in found.unresolved)
    assert all(denied.truth(frozenset(hitting)) is FAIL for hitting in found.unexplained)


def test_the_same_question_gets_the_same_answer_in_the_same_order() -> None:
    culprits = [{"cast", "fma"}, {"fma", "vec"}, {"split"}, {"cast", "layout"}]
    first, *rest = [mirrored(EIGHT, *culprits) for _ in range(3)]
    for other in rest:
        assert other[0] == first[0]
        assert other[1].asked == first[1].asked
        assert other[2].asked == first[2].asked


# What each costs beside the four ends: the search of the causes, then a probe or two for each repair.
@pytest.mark.parametrize(
    ("culprits", "at_most"), [([1], 11), ([2], 24), ([3], 35), ([1, 1], 24), ([2, 2], 55), ([1, 1, 1], 38)]
)
def test_few_probes_find_all_sets_among_512(culprits: list[int], at_most: int) -> None:
    elements = names(512)
    draw = random.Random(sum(culprits))
    for _ in range(20):
        drawn = iter(draw.sample(elements, sum(culprits)))
        planted = [frozenset(next(drawn) for _ in range(size)) for size in culprits]
        found, enabled, denied = mirrored(elements, *planted)
        assert as_sets(found.causes) == set(planted)
        assert_no_gap(found)
        assert len(enabled.asked) + len(denied.asked) <= at_most


# Gaps: what could not be told.


def test_a_repair_that_crashes_is_a_gap_and_the_other_repair_is_found() -> None:
    culprit = any_of({"cast", "inline"})
    denied = unresolved_where(lambda members: members == {"cast"}, mirror(culprit, EIGHT))
    found = all_sets(EIGHT, culprit, denied, limit=10)
    assert members(found.causes) == [("cast", "inline")]
    assert ("inline",) in members(found.repairs)
    assert found.unresolved == (("cast",),)
    assert found.stopped_because is None


def test_where_the_only_small_repair_crashes_a_larger_one_is_found_and_says_what_is_unseparated() -> None:
    culprit = any_of({"cast"})
    crashes = unresolved_where(
        lambda members: "cast" in members and "fma" not in members, mirror(culprit, EIGHT)
    )
    found = all_sets(EIGHT, culprit, crashes, limit=10)
    assert members(found.causes) == [("cast",)]
    assert found.unresolved == (("cast",),)
    assert found.repairs == (MinimalSet(("cast", "fma"), PASS, (FAIL, UNRESOLVED)),)
    assert found.repairs[0].unseparated == ("fma",)


def test_a_denial_that_crashes_does_not_hide_the_next_cause() -> None:
    culprits = any_of({"cast"}, {"fma"})
    denied = unresolved_where(lambda members: len(members) == 1, mirror(culprits, EIGHT))
    found = all_sets(EIGHT, culprits, denied, limit=10)
    assert members(found.causes) == [("cast",), ("fma",)]
    assert found.repairs == (MinimalSet(("cast", "fma"), PASS, (UNRESOLVED, UNRESOLVED)),)
    assert found.unresolved == ()


def test_a_cause_that_crashes_without_a_bystander_is_reported_with_it() -> None:
    enabled = unresolved_where(lambda members: "cast" in members and "vec" not in members, any_of({"cast"}))
    found = all_sets(EIGHT, enabled, mirror(any_of({"cast"}), EIGHT), limit=10)
    assert found.causes == (MinimalSet(("cast", "vec"), FAIL, (PASS, UNRESOLVED)),)
    assert ("cast",) in members(found.repairs)


def test_a_decision_that_only_the_default_compile_has_is_unexplained_but_repaired() -> None:
    # Over the plain baseline `cast` is the only cause; the default compile diverges by `fma` as well.
    found = all_sets(EIGHT, any_of({"cast"}), mirror(any_of({"cast"}, {"fma"}), EIGHT), limit=10)
    assert members(found.causes) == [("cast",)]
    assert found.unexplained == (("cast",),)
    assert members(found.repairs) == [("cast", "fma")]
    assert found.stopped_because is None


def test_where_denying_less_suffices_than_the_causes_say_every_repair_is_found_all_the_same() -> None:
    # Over the plain baseline `cast` and `fma` each diverge; in the default compile `fma` does, with `vec`.
    found = all_sets(EIGHT, any_of({"cast"}, {"fma"}), mirror(any_of({"fma", "vec"}), EIGHT), limit=10)
    assert members(found.causes) == [("cast",), ("fma",)]
    assert members(found.repairs) == [("fma",), ("vec",)]
    assert_no_gap(found)


def test_each_sort_of_gap_is_told_with_its_sets() -> None:
    many = (("a", "b"), ("c",), tuple("defgh"))
    assert SetsFound().gaps == ()
    assert SetsFound(unresolved=many).gaps == (DeniedUnjudged(many),)
    found = SetsFound(unexplained=many[1:2], rest_unresolved=many[2:])
    assert found.gaps == (DeniedUnexplained(many[1:2]), RestUnjudged(many[2:]))


def test_without_a_plain_baseline_a_crash_leaves_a_gap_that_is_named() -> None:
    denied = mirror(any_of({"cast", "fma"}), EIGHT)
    everything = frozenset(EIGHT)
    found = repairs_only(
        EIGHT, unresolved_where(lambda members: members == everything - {"cast"}, denied), limit=10
    )
    assert members(found.repairs) == [("cast",)]
    assert found.rest_unresolved == (("cast",),)
    assert found.stopped_because is None


# Stopping early.


def test_the_limit_ends_a_search_for_more_causes_and_says_so() -> None:
    found, _, _ = mirrored(EIGHT, *[{element} for element in EIGHT], limit=3)
    assert len(found.causes) == 3
    assert found.repairs == ()
    assert found.stopped_because is not None
    assert found.stopped_because == SetsReached(3)


def test_the_limit_ends_a_search_for_more_repairs_and_says_so() -> None:
    found, _, _ = mirrored(EIGHT, EIGHT, limit=3)
    assert len(found.causes) == 1
    assert len(found.repairs) == 3
    assert found.stopped_because is not None
    alone = repairs_only(EIGHT, mirror(any_of(EIGHT), EIGHT), limit=3)
    assert len(alone.repairs) == 3
    assert alone.stopped_because is not None


def test_a_limit_that_is_reached_with_nothing_left_is_complete() -> None:
    found, _, _ = mirrored(EIGHT, {"fma", "inline"}, limit=2)
    assert members(found.repairs) == [("fma",), ("inline",)]
    assert_no_gap(found)


def test_crashes_count_towards_the_limit_so_that_they_cannot_go_on_for_ever() -> None:
    elements = names(20)
    pairs = [elements[i : i + 2] for i in range(0, 20, 2)]  # 2**10 minimal hitting sets
    everything = frozenset(elements)
    denied = Counted(
        unresolved_where(lambda members: 0 < len(members) < 20, mirror(any_of(*pairs), elements))
    )
    found = all_sets(elements, any_of(*pairs), denied, limit=12)
    assert len(found.causes) == 10
    assert len(found.unresolved) == 12
    assert found.stopped_because is not None
    assert everything not in denied.asked
    alone = repairs_only(elements, denied, limit=12)
    assert alone.repairs[0].unseparated
    assert len(alone.rest_unresolved) <= 12


@pytest.mark.parametrize("budget", range(30))
def test_a_spent_budget_keeps_what_was_found_and_gives_the_reason(budget: int) -> None:
    culprits = [{"cast", "inline"}, {"cast", "fuse"}]
    full, enabled, denied = mirrored(EIGHT, *culprits)
    spent = Counted(lambda members: PASS)

    def within_budget(truth: Counted) -> Counted:
        def probe(members: Subset) -> Outcome:
            if len(spent.asked) >= budget:
                raise BudgetSpent(SecondsSpent(30))
            spent(members)
            return truth.truth(members)

        return Counted(probe)

    found = all_sets(EIGHT, within_budget(enabled), within_budget(denied), limit=10)
    if budget >= len(enabled.asked) + len(denied.asked):
        assert found == full
    else:
        assert found.stopped_because == SecondsSpent(30)
        assert found.causes == full.causes[: len(found.causes)]
        assert found.repairs == full.repairs[: len(found.repairs)]


def test_a_spent_budget_ends_the_search_for_repairs_alone_too() -> None:
    asked = Counted(mirror(any_of({"cast", "inline"}), EIGHT))

    def denied(members: Subset) -> Outcome:
        if len(asked.asked) == 4:
            raise BudgetSpent(QuestionsSpent(4))
        return asked(members)

    found = repairs_only(EIGHT, denied, limit=10)
    assert found.stopped_because == QuestionsSpent(4)
    assert len(found.repairs) == 1


def test_planted_truths_are_what_they_say() -> None:
    assert len(list(antichains(names(4)))) == 166  # Dedekind's number 168 less the two constant truths
    assert len(list(subsets(names(4)))) == 16


class Substituted:
    """Denying `old` brings `new` up, which does the same damage, as long as `host` is allowed."""

    old, new, host = "fuse", "other", "fma"

    def enabled(self, members: Subset) -> Outcome:
        return FAIL if self.old in members or {self.new, self.host} <= members else PASS

    def denied(self, members: Subset) -> Outcome:
        return PASS if self.old in members and members & {self.new, self.host} else FAIL

    def appeared(self, members: Subset) -> tuple[str, ...]:
        here = self.old in members and self.host not in members
        return (*EIGHT, self.new) if here else EIGHT


def test_what_appears_in_the_place_of_a_denied_decision_is_a_cause_of_its_own() -> None:
    program = Substituted()
    found = all_sets(EIGHT, program.enabled, program.denied, 50, appeared=program.appeared)
    assert members(found.causes) == [("fma", "other"), ("fuse",)]
    assert members(found.repairs) == [("fuse", "fma"), ("fuse", "other")]
    assert_no_gap(found)


def test_what_appears_joins_a_repair_though_it_makes_no_cause_over_the_plain_baseline() -> None:
    program = Substituted()
    found = all_sets(EIGHT, any_of({"fuse"}), program.denied, 50, appeared=program.appeared)
    assert members(found.causes) == [("fuse",)]
    assert members(found.repairs) == [("fuse", "fma"), ("fuse", "other")]
    assert found.unexplained == (("fuse",),), "that no cause says why both must go is told"


def test_repairs_alone_are_searched_among_what_appears_too() -> None:
    program = Substituted()
    found = repairs_only(EIGHT, program.denied, 50, appeared=program.appeared)
    assert members(found.repairs) == [("fuse", "fma"), ("fuse", "other")]


def test_nothing_new_in_the_place_of_a_denied_decision_leaves_the_gap_to_the_repairs() -> None:
    program = Substituted()
    found = all_sets(EIGHT, any_of({"fuse"}), program.denied, 50)
    assert found.unexplained == (("fuse",),)
    assert members(found.repairs) == [("fuse", "fma")]
