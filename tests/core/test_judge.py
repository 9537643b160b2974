"""Measurements to outcomes: what diverges, what cannot be told, and how much of it is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisector.core.criterion import Criterion
from bisector.core.judge import grown, judge, proof, removed_fraction, severity, size, worst
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, Raised, Signature
from bisector.core.outcome import Outcome
from bisector.report.reasons import words
from tests.core.measurements import AGREES, CRASH, measured, off_by, output

FAIL, PASS, UNRESOLVED = Outcome.FAIL, Outcome.PASS, Outcome.UNRESOLVED
LOOSE = Criterion((0.0, 1e-3))
INF = float("inf")


def test_a_crash_is_unresolved_and_keeps_its_reason() -> None:
    result = judge(CRASH, Criterion())
    assert (result.outcome, words(result.reason)) == (UNRESOLVED, "crash: signal 11 (SIGSEGV)")
    assert result.measurement is CRASH


def test_outputs_within_tolerance_agree_though_their_bits_differ() -> None:
    assert judge(measured(off_by(1e-3)), LOOSE).outcome is PASS
    assert judge(measured(off_by(1.001e-3)), LOOSE).outcome is FAIL


def test_rtol_is_of_the_size_of_eager_where_they_differ() -> None:
    near_zero = measured(off_by(1e-4, size=1e-6))
    far_out = measured(off_by(1e-4, size=1e6))
    criterion = Criterion((1e-6, 1e-8))
    assert judge(near_zero, criterion).outcome is FAIL
    assert judge(far_out, criterion).outcome is PASS


def test_any_pair_of_the_frontier_may_be_the_one_that_fails() -> None:
    pairs = ((0.0, 1e-5), (1.0, 1e-3), (100.0, 1e-2))
    m = measured(output(n_diff=3, frontier=pairs))
    assert judge(m, Criterion((0.0, 1e-2))).outcome is PASS
    assert judge(m, Criterion((1.0, 9e-6))).outcome is FAIL
    assert judge(m, Criterion((5e-4, 1e-5))).outcome is FAIL


def test_the_worst_element_is_the_one_that_is_farthest_outside_of_its_tolerance() -> None:
    far_and_large = output(n_diff=2, frontier=((1.0, 0.5), (1000.0, 2.0)), worst=(3, 8))
    assert worst(far_and_large, Criterion((0.0, 0.0))) == 8
    assert worst(far_and_large, Criterion((0.01, 0.0))) == 3
    assert worst(output(n_diff=0, frontier=(), worst=()), Criterion((0.0, 0.0))) is None


def test_the_worst_element_is_first_of_all_one_that_is_finite_on_one_side_only() -> None:
    infinite = output(n_diff=2, nonfinite_mismatches=1, frontier=((1.0, 0.5),), worst=(7, 3))
    assert worst(infinite, Criterion((0.0, 0.0))) == 7


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (output(shape_compiled=(99,), dtype_compiled="float64"), DivergenceKind.SHAPE),
        (output(dtype_compiled="float64"), DivergenceKind.DTYPE),
        (output(alias_mismatch="a NoneType instead of a Tensor"), DivergenceKind.ALIAS),
        (off_by(1.0, nonfinite_mismatches=2), DivergenceKind.NONFINITE),
        (off_by(1.0), DivergenceKind.VALUE),
    ],
)
def test_a_divergence_is_named_by_its_gravest_kind(wrong: OutputMeasurement, kind: DivergenceKind) -> None:
    result = judge(
        measured(output("output[1]"), wrong), Criterion((10.0, 0.0) if kind.value != "value" else (0, 0))
    )
    assert result.outcome is FAIL
    assert result.signatures == (Signature("output[0]", kind),)


def test_other_strides_alone_diverge_where_the_criterion_asks_for_them() -> None:
    m = measured(output(stride=(1,), stride_compiled=(4,)))
    assert judge(m, Criterion()).outcome is PASS
    asked = judge(m, Criterion(strides=True))
    assert asked.signatures == (Signature("output[0]", DivergenceKind.STRIDE),)
    assert words(asked.reason) == "output[0]: strides (4,) instead of (1,)"


def test_strides_are_not_named_beside_what_is_worse_nor_those_of_a_gradient() -> None:
    both = measured(output(stride=(1,), stride_compiled=(4,)), off_by(1.0, path="output[1]"))
    assert judge(both, Criterion(strides=True)).signatures == (Signature("output[1]", DivergenceKind.VALUE),)
    gradient = measured(output("grad[x]", stride=(1,), stride_compiled=(4,)))
    assert judge(gradient, Criterion(strides=True)).outcome is PASS


def raised(eager: str | None, compiled: str | None, alike: bool = False) -> Measurement:
    return measured(output("exception", raised=Raised(eager, compiled, alike)))


def test_one_side_that_raises_diverges_from_one_that_returns() -> None:
    result = judge(raised(None, "IndexError: 7 is out of range"), Criterion())
    assert result.outcome is FAIL
    assert words(result.reason) == "exception: compiled raises IndexError: 7 is out of range; eager returns"
    assert "eager raises" in words(judge(raised("ValueError: no", None), Criterion()).reason)


def test_two_that_raise_alike_agree_and_otherwise_diverge() -> None:
    assert judge(raised("ValueError: a", "ValueError: b", alike=True), Criterion()).outcome is PASS
    assert judge(raised("ValueError: a", "IndexError: b"), Criterion()).outcome is FAIL


def test_the_same_exception_of_a_smaller_case_has_other_numbers_and_another_one_is_another_bug() -> None:
    studied = judge(raised(None, "RuntimeError: size 128 at 0x7f, /tmp/a/b.cpp:12"), Criterion()).signatures
    same = raised(None, "RuntimeError: size 4 at 0x11, /tmp/c.cpp:9")
    assert judge(same, Criterion(), same=studied).outcome is FAIL
    assert judge(raised(None, "TypeError: size 4"), Criterion(), same=studied).outcome is UNRESOLVED
    assert judge(measured(off_by(1.0)), Criterion(), same=studied).outcome is UNRESOLVED


def test_where_values_are_studied_an_exception_says_nothing_of_them() -> None:
    studied = judge(measured(off_by(1.0)), Criterion()).signatures
    for outcome in (raised(None, "E: x"), raised("E: x", "E: x", alike=True)):
        assert judge(outcome, Criterion(), same=studied).outcome is UNRESOLVED


def test_of_two_divergences_the_worse_kind_counts_and_then_the_error_against_rounding() -> None:
    few_flags = output(dtype="bool", n_diff=1, numel=100, frontier=((1.0, 1.0),), max_abs=1.0)
    last_bit = off_by(1e-4, scale=1.0)
    large, infinite = off_by(1e5, scale=1.0), output(nonfinite_mismatches=1, n_diff=1)
    given = [judge(measured(one), Criterion()) for one in (last_bit, few_flags, large, infinite)]
    given.append(judge(raised(None, "E: x"), Criterion()))
    assert sorted(given, key=severity) == given


def test_the_sign_of_a_zero_counts_only_on_request() -> None:
    m = measured(output(n_diff=3, sign_diff=3))
    assert judge(m, Criterion()).outcome is PASS
    assert judge(m, Criterion(signed_zero=True)).outcome is FAIL
    assert judge(m, Criterion((1.0, 1.0), signed_zero=True)).outcome is FAIL


def test_a_divergence_of_another_kind_is_unresolved_and_not_the_one_under_study() -> None:
    studied = [Signature("output[0]", DivergenceKind.VALUE)]
    other = judge(measured(output(nonfinite_mismatches=1, n_diff=1)), Criterion(), same=studied)
    assert other.outcome is UNRESOLVED
    assert words(other.reason).startswith("another signature: output[0]")


def test_a_divergence_in_a_gradient_is_not_one_in_an_output() -> None:
    studied = [Signature("grad[x]", DivergenceKind.VALUE)]
    assert judge(measured(off_by(1.0)), Criterion(), same=studied).outcome is UNRESOLVED
    assert judge(measured(off_by(1.0, path="grad[y]")), Criterion(), same=studied).outcome is FAIL


def test_one_shared_signature_is_enough_beside_others() -> None:
    studied = [Signature("output[3]", DivergenceKind.VALUE)]
    both = measured(output(shape_compiled=(1,)), off_by(1.0, path="output[1]"))
    assert judge(both, Criterion(), same=studied).outcome is FAIL


def test_every_output_that_diverges_is_in_the_reason() -> None:
    result = judge(measured(off_by(1.0), output("output[1]"), off_by(2.0, path="output[2]")), Criterion())
    assert "output[0]" in words(result.reason)
    assert "output[2]" in words(result.reason)
    assert "output[1]" not in words(result.reason)


def test_the_size_of_a_divergence_is_what_exceeds_the_tolerance_and_infinite_if_no_number_says_it() -> None:
    assert size(AGREES, LOOSE) == 0.0
    assert size(measured(off_by(0.5)), Criterion((0.0, 0.25))) == 0.25
    assert size(measured(off_by(0.5), output("output[1]", shape_compiled=(1,))), LOOSE) == INF


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (measured(off_by(1.0)), AGREES, 1.0),
        (measured(off_by(1.0)), measured(off_by(0.25)), 0.75),
        (measured(off_by(1.0)), measured(off_by(1.0)), 0.0),
        (measured(off_by(1.0)), measured(off_by(2.0)), 0.0),
        (measured(off_by(1.0)), measured(output(shape_compiled=(1,))), 0.0),
        (measured(output(nonfinite_mismatches=1)), AGREES, 1.0),
        (measured(output(nonfinite_mismatches=1)), measured(off_by(1.0)), 0.5),
        (measured(output(nonfinite_mismatches=2)), measured(output(nonfinite_mismatches=1)), 0.0),
    ],
)
def test_the_removed_fraction_is_one_only_where_all_agrees(
    before: Measurement, after: Measurement, share: float
) -> None:
    assert removed_fraction(before, after, Criterion((0.0, 0.0))) == share


def test_a_crash_removes_nothing() -> None:
    assert removed_fraction(measured(off_by(1.0)), CRASH, LOOSE) == 0.0


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [
        (measured(off_by(1.0)), measured(off_by(3.0)), 3.0),
        (measured(off_by(1.0, n_diff=2)), measured(off_by(1.0, n_diff=5)), 2.5),
        (measured(off_by(1.0)), AGREES, 0.0),
        (measured(off_by(1.0)), measured(output(nonfinite_mismatches=1)), INF),
        (measured(output(nonfinite_mismatches=1)), measured(off_by(1.0)), None),
        (measured(off_by(1.0)), CRASH, None),
    ],
)
def test_a_divergence_grows_in_size_or_in_elements_that_may_not_differ(
    before: Measurement, after: Measurement, times: float | None
) -> None:
    assert grown(before, after, Criterion((0.0, 0.0))) == times


def test_elements_that_differ_within_the_tolerance_do_not_make_a_divergence_larger() -> None:
    before, after = measured(off_by(3.0, n_diff=1)), measured(off_by(3.0, n_diff=100))
    assert grown(before, after, Criterion((0.0, 1.0))) == 1.0


def test_a_divergence_in_signs_of_zero_alone_is_removed_only_as_a_whole() -> None:
    criterion = Criterion((0.0, 0.0), signed_zero=True)
    before = measured(output(n_diff=4, sign_diff=4))
    assert removed_fraction(before, measured(output(n_diff=1, sign_diff=1)), criterion) == 0.0
    assert removed_fraction(before, AGREES, criterion) == 1.0


def test_a_repair_is_not_proved_where_a_denied_decision_never_came_up() -> None:
    agrees = judge(replace(AGREES, vanished=("fuse:c@b",)), Criterion())
    seen = proof(agrees, ["inline:aten.mul@a", "fuse:c@b"])
    reason = "fuse:c@b was not taken in this compile, so denying it proves nothing"
    assert (seen.outcome, words(seen.reason)) == (UNRESOLVED, reason)
    assert proof(agrees, ["inline:aten.mul@a"]).outcome is PASS


def test_what_diverges_though_a_decision_vanished_diverges() -> None:
    diverges = judge(replace(measured(off_by(1.0)), vanished=("fuse:c@b",)), Criterion())
    assert proof(diverges, ["fuse:c@b"]) is diverges
