"""A case is plain data: it survives JSON, and each edit is made of the case as it stands."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bisector import request_json, wire
from bisector.core.case import WHOLE, Case, Slice
from bisector.core.decision import Decision, DecisionId
from bisector.core.model import Base, Candidate, Measurement
from bisector.core.protocol import About, RunProbe
from tests.core.measurements import CRASH, measured, off_by, output

NAMES = st.text("abcxyz_01", min_size=1, max_size=6)
SIZES = st.integers(0, 1 << 40)
SLICES = st.builds(Slice, NAMES, st.integers(0, 5), SIZES, SIZES)
EDITS = {
    "unfuse": st.lists(NAMES, max_size=3).map(tuple),
    "cut": st.lists(NAMES, max_size=3).map(tuple),
    "bypass": st.lists(st.tuples(NAMES, NAMES), max_size=3).map(tuple),
    "outputs": st.lists(NAMES, max_size=3).map(tuple),
    "slices": st.lists(SLICES, max_size=3).map(tuple),
    "sizes": st.lists(st.tuples(SIZES, SIZES), max_size=3).map(tuple),
    "contiguous": st.lists(NAMES, max_size=3).map(tuple),
    "dtype": st.sampled_from([None, "float32"]),
    "values": st.lists(st.tuples(NAMES, st.sampled_from(["zeros", "ones", "digits:2"])), max_size=3).map(
        tuple
    ),
    "scales": st.lists(st.tuples(NAMES, st.floats(1, 2)), max_size=3).map(tuple),
    "arguments": st.lists(
        st.tuples(NAMES, st.integers(0, 5) | NAMES, st.sampled_from(["default", "one", "item:3"])), max_size=3
    ).map(tuple),
}
EDITS |= {part: st.lists(st.integers(0, 9), max_size=3).map(tuple) for part in ("graphs", "calls")}
FLAT = st.builds(Case, **EDITS)
CASES = st.builds(Case, **EDITS, base=st.none() | st.builds(Case, **EDITS, base=st.none() | FLAT))

FLAGS = st.dictionaries(NAMES, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES)
CANDIDATES = st.builds(
    Candidate,
    st.sampled_from(Base),
    st.frozensets(NAMES),
    FLAGS.map(lambda flags: tuple(sorted(flags.items()))),
    st.sampled_from(["inductor", "aot_eager"]),
)


def test_a_case_over_one_with_other_values_has_other_values_too() -> None:
    assert not WHOLE.with_cut("a").has_own_values
    assert WHOLE.with_scale("x", 1.5).rebased().has_own_values
    assert WHOLE.with_value("x", "ones").rebased().with_cut("a").has_own_values
    assert WHOLE.with_dtype("float32").rebased().has_own_values


def through_text(value: object) -> Any:
    return json.loads(json.dumps(wire.dump(value)))


@given(CASES)
def test_a_case_comes_back_from_json_as_it_was(case: Case) -> None:
    assert wire.load(Case, through_text(case)) == case


@given(CASES, CASES)
def test_two_cases_have_one_text_only_if_they_are_equal(a: Case, b: Case) -> None:
    assert (wire.text_of(wire.dump(a)) == wire.text_of(wire.dump(b))) == (a == b)


@given(CANDIDATES)
def test_a_candidate_comes_back_from_json_as_it_was(candidate: Candidate) -> None:
    assert wire.load(Candidate, through_text(candidate)) == candidate


TRAINS = st.sampled_from([None, False, True])
ABOUTS = st.builds(About, st.integers(-1, 9), CASES, TRAINS, st.dictionaries(NAMES, NAMES))
PROBES = st.builds(RunProbe, ABOUTS, CANDIDATES, st.integers(0, 9), st.integers(1, 16))


@given(PROBES)
def test_a_request_comes_to_the_worker_as_it_was_asked(probe: RunProbe) -> None:
    assert request_json.load_request(json.loads(json.dumps(request_json.dump_request(probe)))) == probe


@given(st.permutations(["fma:a@x", "vec:b@y", "fuse:c@z"]))
def test_the_order_in_which_members_are_given_does_not_change_the_text(members: list[str]) -> None:
    assert through_text(Candidate.deny(members)) == through_text(Candidate.deny(sorted(members)))


def test_a_measurement_comes_back_from_json_as_it_was() -> None:
    full = Measurement(
        outputs=(off_by(0.5, shape=(4, 25)), output("grad[x]", stride_compiled=(1, 4), max_ulp=3)),
        decisions=(Decision(DecisionId("fma:sub@mul"), "a sentence", "model.py:3"),),
        vanished=("vec:exp@exp",),
        code="ab12",
        seconds=0.25,
        notes=("a note",),
    )
    for measurement in (full, CRASH, measured(output(max_abs=float("inf")))):
        assert wire.load(Measurement, through_text(measurement)) == measurement


def test_a_cut_is_kept_once_and_in_order() -> None:
    assert WHOLE.with_cut("b", "a").with_cut("b").cut == ("a", "b")


def test_a_second_slice_of_one_axis_takes_the_place_of_the_first() -> None:
    case = WHOLE.with_slice(Slice("x", 0, 0, 8), Slice("x", 1, 0, 8)).with_slice(Slice("x", 0, 4, 2))
    assert case.slices == (Slice("x", 0, 4, 2), Slice("x", 1, 0, 8))


def test_a_size_that_changes_twice_is_followed_from_the_captured_one() -> None:
    case = WHOLE.with_size(64, 32).with_size(32, 8)
    assert dict(case.sizes) == {64: 8, 32: 8}


def test_a_new_size_leaves_alone_what_was_changed_to_another() -> None:
    case = WHOLE.with_size(64, 32).with_size(7, 3)
    assert dict(case.sizes) == {64: 32, 7: 3}


def test_a_second_simplification_of_one_input_takes_the_place_of_the_first() -> None:
    case = WHOLE.with_value("x", "digits:4").with_value("y", "ones").with_value("x", "ones")
    assert dict(case.values) == {"x": "ones", "y": "ones"}


def test_a_case_is_rebased_with_all_its_edits_and_the_whole_graph_stays_itself() -> None:
    case = WHOLE.with_cut("a")
    assert case.rebased() == Case(base=case)
    assert WHOLE.rebased() is WHOLE
