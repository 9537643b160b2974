"""Causes as patterns of decisions, and how alike two partitions are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.core.clusters import Cause, cause_of, pattern, rand_index
from bisector.core.decision import DecisionId

Sets = list[list[str]]


def cause(repairs: Sets, causes: Sets, flags: list[dict[str, int]]) -> Cause | None:
    ids = ([[DecisionId(member) for member in found] for found in sets] for sets in (repairs, causes))
    return cause_of(*ids, flags)


@pytest.mark.parametrize(
    ("decision", "wanted"),
    [
        ("cast:bfloat16/convert_element_type_1@bwd.gelu", "cast:bfloat16"),
        ("inline:aten.clone#1@cat", "inline:aten.clone"),
        ("match:_sfdp/view_2@matmul_1", "match:_sfdp"),
        ("fma:sub@mul_1", "fma"),
        ("fuse:rounded@half", "fuse"),
        ("vec:erf@erf", "vec:erf"),
        ("config:inductor.cpp.simdlen@graph", "config:inductor.cpp.simdlen"),
        ("g1/cast:bfloat16/convert_element_type_1@bwd.gelu", "cast:bfloat16"),
        ("g12/inline:aten.clone#1@cat", "inline:aten.clone"),
        ("g1/fma:sub@mul_1", "fma"),
    ],
)
def test_a_pattern_leaves_out_what_is_of_one_graph(decision: str, wanted: str) -> None:
    assert pattern(DecisionId(decision)) == wanted


def test_failures_of_scripts_are_not_alike_by_the_number_of_their_graph() -> None:
    ways = [["g1/cast:bfloat16@half"], ["g1/vec:erf@erf"], ["g2/vec:erf@erf_1"]]
    keys = [found.key for way in ways if (found := cause([way], [way], [])) is not None]
    assert keys == ["cast:bfloat16", "vec:erf", "vec:erf"]


def test_what_only_makes_room_for_a_cause_is_no_part_of_its_key() -> None:
    one = cause(
        [["cast:float16@half"]], [["cast:float16@half", "inline:prims.convert_element_type@half"]], []
    )
    other = cause([["cast:float16@h_1", "fuse:mul@h_1"]], [["cast:float16@h_1", "fuse:mul@h_1"]], [])
    assert one is not None and other is not None
    assert one.key == other.key == "cast:float16"


def test_where_there_is_nothing_but_room_it_is_the_cause() -> None:
    found = cause([["inline:aten.abs@abs_1"]], [], [])
    assert found is not None
    assert found.key == "inline:aten.abs"


def test_a_cause_is_told_by_its_repair_then_by_causes_then_by_flags() -> None:
    repairs, causes = [["vec:erf@erf", "layout:channels_last@conv"]], [["vec:erf@erf"], ["layout:x@conv"]]
    flags = [{"inductor.cpp.simdlen": 1}]
    keys = [
        found.key
        for found in (cause(repairs, causes, flags), cause([], causes, flags), cause([], [], flags))
        if found is not None
    ]
    assert keys == ["layout:channels_last + vec:erf", "layout:x + vec:erf", "inductor.cpp.simdlen=1"]
    assert cause([], [], []) is None


def test_causes_that_the_repair_has_no_part_in_do_not_count() -> None:
    found = cause([["vec:erf@erf"]], [["vec:erf@erf"], ["decomp:aten.std@std"]], [])
    assert found is not None
    assert found.cause == {"vec:erf"}


def test_what_is_denied_and_enabled_in_another_graph_goes_by_patterns() -> None:
    cause = Cause(frozenset({"fma"}), frozenset({"fma"}))
    ids = ("fma:add@mul_7", "inline:aten.mul@mul_7", "vec:exp@exp", "fuse:a@b", "lower:aten.mul@mul_7")
    decisions = [DecisionId(member) for member in ids]
    assert cause.denied(decisions) == {"fma:add@mul_7"}
    assert cause.enabled(decisions) == {"fma:add@mul_7", "inline:aten.mul@mul_7", "fuse:a@b"}


def test_a_cause_comes_back_from_json() -> None:
    cause = Cause(frozenset({"fma"}), frozenset({"fma", "pass:x"}), (("inductor.a", 1),))
    assert Cause.from_json(json.loads(json.dumps(cause.to_json()))) == cause


def test_the_index_is_that_of_the_textbook() -> None:
    # By hand: of 10 pairs 1 is together in both, 4 in the first, 2 in the second, so 0.8 by chance.
    assert rand_index("aaabb", "aabbc") == pytest.approx((1 - 0.8) / (3 - 0.8))
    # Of 6 pairs none is together in both, 2 in each.
    assert rand_index("abab", "aabb") == pytest.approx((0 - 4 / 6) / (2 - 4 / 6))


PARTITIONS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=2, max_size=12)


@given(PARTITIONS)
def test_names_of_clusters_do_not_matter_and_equal_partitions_have_index_one(
    pairs: list[tuple[str, str]],
) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    renamed = [{"a": "c", "b": "a", "c": "b"}[a] for a in ours]
    assert rand_index(ours, theirs) == rand_index(renamed, theirs)
    assert rand_index(ours, renamed) == 1.0
    assert rand_index(ours, theirs) <= 1.0
