"""Numbers of two runs: each is checked against a plain computation that knows no shortcut."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.criterion import Criterion
from bisector.core.judge import judge
from bisector.core.model import DivergenceKind, FarElements, Measurement, OutputMeasurement
from bisector.core.outcome import Outcome
from bisector.inductor.measure import Exact, compare, frontier
from bisector.inductor.moves import WIDE, Moves

INF, NAN = math.inf, math.nan
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]


def measure(eager: Any, compiled: Any, reference: Any = None) -> OutputMeasurement:
    exact = None if reference is None else Exact(reference)
    found = compare(0, "output[0]", eager, compiled, exact)
    assert found is not None
    return found


def of(values: Any, dtype: Any = torch.float32) -> Any:
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def outcome(measurement: OutputMeasurement, rtol: float, atol: float) -> Outcome:
    return judge(Measurement(outputs=(measurement,)), Criterion((rtol, atol))).outcome


# -- the frontier judges as all elements do ---------------------------------------------------------------

SIZES = st.one_of(
    st.just(0.0),
    st.sampled_from([1e-30, 1e-3, 0.5, 1.0, 3.0, 1e30]),
    st.floats(0.0, 1e6, allow_subnormal=False),
)
PAIRS = st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=40)
TOLERANCE = st.one_of(st.just(0.0), st.floats(1e-9, 10.0), st.sampled_from([1.3e-6, 1e-5, 1.6e-2, 1e-3, 1.0]))


@settings(max_examples=400, deadline=None)
@given(PAIRS, TOLERANCE, TOLERANCE)
def test_the_frontier_is_within_a_tolerance_just_where_all_pairs_are(
    pairs: list[tuple[float, float]], rtol: float, atol: float
) -> None:
    columns = torch.tensor(pairs, dtype=torch.float64)
    hull = [(s, d) for s, d, _ in frontier(columns[:, 0], columns[:, 1])]

    def slack(some: Any) -> float:
        return max((d - (atol + rtol * s) for s, d in some), default=-atol)

    # The hull is drawn in float64: a pair that is outside by its last digit may go.
    digit = 1e-12 * max(1.0, *(d + rtol * s for s, d in pairs))
    assert (slack(hull) > 0) == (slack(pairs) > 0) or abs(slack(pairs)) < digit
    assert set(hull) <= set(pairs)


@given(PAIRS)
def test_each_pair_of_the_frontier_is_told_with_its_place(pairs: list[tuple[float, float]]) -> None:
    columns = torch.tensor(pairs, dtype=torch.float64)
    found = frontier(columns[:, 0], columns[:, 1])
    assert [(s, d) for s, d, _ in found] == [pairs[at] for _, _, at in found]


VALUES = st.one_of(
    st.floats(width=32),
    st.floats(-10, 10, width=32),
    st.sampled_from([0.0, -0.0, INF, -INF, NAN, 1.0, 1e-30]),
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(VALUES, st.one_of(VALUES, st.none())), min_size=1, max_size=30),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]),
    TOLERANCE,
    TOLERANCE,
)
def test_a_measurement_agrees_just_where_allclose_does(
    pairs: list[tuple[float, float | None]], dtype: Any, rtol: float, atol: float
) -> None:
    eager = of([e for e, _ in pairs], dtype)
    compiled = of([e if c is None else c for e, c in pairs], dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = torch.allclose(compiled.to(wide), eager.to(wide), rtol=rtol, atol=atol, equal_nan=True)
    assert (outcome(measure(eager, compiled), rtol, atol) is Outcome.PASS) == expected


def test_a_large_tensor_keeps_a_short_frontier() -> None:
    torch.manual_seed(0)
    eager = torch.randn(1 << 20)
    found = measure(eager, eager + torch.randn(1 << 20) * 1e-6 * eager.abs())
    assert 0 < len(found.frontier) < 100


# -- what is counted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *UNSIGNED, *SIGNED, torch.bool, torch.complex64])
def test_equal_tensors_have_nothing_to_measure(dtype: Any) -> None:
    x = of([0, 1, 1, 0], dtype)
    found = measure(x, x.clone())
    assert (found.n_diff, found.max_abs, found.frontier, found.worst) == (0, 0.0, (), ())
    assert (found.dtype, found.shape, found.numel) == (str(dtype).removeprefix("torch."), (4,), 4)


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *UNSIGNED, *SIGNED, torch.bool, torch.complex64])
def test_an_element_that_differs_is_counted_and_found(dtype: Any) -> None:
    found = measure(of([0, 1, 1, 0], dtype), of([0, 1, 0, 0], dtype))
    parts = 2 if dtype.is_complex else 1
    assert (found.n_diff, found.max_abs, found.max_rel, found.scale) == (1, 1.0, 1.0, 1.0)
    assert found.worst == (2 * parts,)
    assert found.frontier == ((1.0, 1.0),)


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours_are_one_ulp_apart_and_the_two_zeros_none(dtype: Any) -> None:
    info = torch.finfo(dtype)
    for value in (0.0, 1.0, -1.0, 3.25, info.tiny, info.max / 2, -info.smallest_normal):
        x = torch.tensor([value], dtype=dtype)
        up = torch.nextafter(x, torch.full_like(x, INF))
        assert measure(x, up).max_ulp == measure(up, x).max_ulp == 1
    assert measure(of([0.0], dtype), of([-0.0], dtype)).max_ulp == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_are_counted_through_zero(dtype: Any) -> None:
    least = torch.nextafter(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
    assert measure(least, -least).max_ulp == 2


def test_a_distance_in_ulp_that_no_int64_holds_is_the_largest_that_it_holds() -> None:
    assert measure(of([1e308], torch.float64), of([-1e308], torch.float64)).max_ulp == (1 << 63) - 1


@pytest.mark.parametrize("dtype", [*FLOAT8, torch.int32, torch.bool])
def test_what_has_no_steps_of_its_own_has_no_ulp(dtype: Any) -> None:
    assert measure(of([1.0], dtype), of([0.0], dtype)).max_ulp is None


def test_neighbouring_large_integers_differ_though_float64_holds_them_not() -> None:
    big = torch.tensor([1 << 60, 5])
    found = measure(big, big + torch.tensor([1, 0]))
    assert (found.n_diff, found.sign_diff, found.max_abs) == (1, 0, 1.0)
    assert outcome(found, 0.0, 0.0) is Outcome.FAIL


def test_the_extremes_of_int64_and_uint64_are_far_apart() -> None:
    info = torch.iinfo(torch.int64)
    found = measure(torch.tensor([info.min]), torch.tensor([info.max]))
    assert found.max_abs == 2.0**64
    unsigned = torch.tensor([-1]).view(torch.uint64)
    assert measure(unsigned, torch.zeros_like(unsigned)).max_abs == 2.0**64


def test_integers_that_differ_diverge_at_the_default_tolerance() -> None:
    found = Measurement(outputs=(measure(torch.tensor([1 << 40]), torch.tensor([(1 << 40) + 1])),))
    assert judge(found, Criterion()).outcome is Outcome.FAIL


def test_signs_of_zero_are_counted_apart() -> None:
    found = measure(of([0.0, -0.0, 0.0, 1.0]), of([-0.0, 0.0, 0.0, 2.0]))
    assert (found.n_diff, found.sign_diff) == (3, 2)
    assert found.frontier == ((1.0, 1.0),)


def test_nan_equals_nan_whatever_its_bits() -> None:
    quiet = torch.tensor([0x7FC00000, 0x7FC00001, -1], dtype=torch.int32).view(torch.float32)
    assert measure(quiet, torch.full((3,), NAN)).n_diff == 0


@pytest.mark.parametrize(
    ("eager", "compiled", "mismatches"),
    [
        ([INF, NAN, 1.0], [INF, NAN, 1.0], 0),
        ([INF, 1.0, 1.0], [-INF, 1.0, 1.0], 1),
        ([1.0, 1.0, 1.0], [NAN, INF, 1.0], 2),
        ([NAN, INF, NAN], [1.0, 1.0, INF], 3),
    ],
)
def test_infinities_must_match_and_count_apart(
    eager: list[float], compiled: list[float], mismatches: int
) -> None:
    found = measure(of(eager), of(compiled))
    assert (found.nonfinite_mismatches, found.n_diff) == (mismatches, mismatches)
    assert found.frontier == ()
    assert (outcome(found, 1e9, 1e9) is Outcome.PASS) == (mismatches == 0)


def test_finite_elements_beside_infinite_ones_are_measured_all_the_same() -> None:
    found = measure(of([INF, 2.0, 4.0]), of([1.0, 2.5, 4.0]))
    assert (found.nonfinite_mismatches, found.max_abs, found.scale) == (1, 0.5, 4.0)
    assert found.worst == (0, 1)


def test_a_difference_that_overflows_is_infinite_and_fails_at_any_tolerance() -> None:
    found = measure(of([1e308, 1.0], torch.float64), of([-1e308, 1.5], torch.float64))
    assert found.max_abs == INF
    assert outcome(found, 0.5, 1e300) is Outcome.FAIL


def test_a_relative_difference_from_zero_is_infinite_if_there_is_no_other() -> None:
    assert measure(of([0.0]), of([1.0])).max_rel == INF
    assert measure(of([0.0, 2.0]), of([1.0, 1.0])).max_rel == 0.5


def test_complex_numbers_are_held_to_their_modulus_and_counted_once() -> None:
    eager = torch.tensor([1e3 + 0j, 3 + 4j])
    found = measure(eager, torch.tensor([1e3 + 1e-4j, 6 + 8j]))
    assert (found.n_diff, found.numel, found.max_abs) == (2, 2, 5.0)
    assert outcome(measure(eager, eager + 1e-4j), 1.3e-6, 1e-4) is Outcome.PASS
    half = eager.to(torch.complex32)
    assert measure(half, half.clone()).n_diff == 0


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,), (3, 0, 2)])
def test_the_shape_does_not_matter(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    found = measure(x, x + 1)
    assert (found.shape, found.numel, found.n_diff) == (shape, x.numel(), x.numel())


# -- in what two values may differ beside their numbers ------------------------------------------------------


def test_another_shape_is_named_before_anything_is_compared() -> None:
    found = measure(torch.ones(2, 3), torch.ones(3, 2, dtype=torch.float64))
    assert (found.shape_compiled, found.dtype_compiled, found.n_diff) == ((3, 2), None, 0)


def test_another_dtype_is_named_and_values_are_not_compared() -> None:
    found = measure(torch.ones(2), torch.zeros(2, dtype=torch.float64))
    assert (found.dtype_compiled, found.n_diff) == ("float64", 0)


def test_other_strides_are_told_beside_the_values() -> None:
    eager = torch.arange(6.0).reshape(2, 3)
    found = measure(eager, eager.t().contiguous().t())
    assert (found.stride_compiled, found.n_diff) == ((1, 2), 0)


def test_the_stride_of_a_dimension_of_one_means_nothing() -> None:
    eager = torch.empty_strided((1, 4), (4, 1))
    compiled = torch.empty_strided((1, 4), (77, 1)).copy_(eager)
    assert measure(eager, compiled).stride_compiled is None


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [(torch.ones(1), None), (None, torch.ones(1)), (torch.ones(1), 1.0), (1, torch.ones(1))],
)
def test_a_tensor_on_one_side_alone_is_a_divergence(eager: Any, compiled: Any) -> None:
    found = judge(Measurement(outputs=(measure(eager, compiled),)), Criterion())
    assert found.signatures[0].kind is DivergenceKind.ALIAS


def test_plain_numbers_are_compared_as_scalars_and_none_with_none_not_at_all() -> None:
    assert measure(2.0, 2.5).max_abs == 0.5
    assert measure(3, 3).n_diff == 0
    assert measure(1, 1.0).dtype_compiled == "float32"
    assert measure("a", "b").alias_mismatch == "'b' instead of 'a'"
    assert compare(0, "output[0]", None, None) is None
    assert compare(0, "output[0]", "a", "a") is None


def test_conjugate_and_negative_views_have_their_values() -> None:
    z = torch.tensor([1 + 2j])
    assert measure(z.conj(), torch.tensor([1 - 2j])).n_diff == 0
    assert measure(z.conj().imag, torch.tensor([-2.0])).n_diff == 0


def test_sparse_and_quantized_tensors_are_compared_by_value() -> None:
    dense = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert measure(dense.to_sparse(), (dense * 2).to_sparse()).max_abs == 2.0
    assert measure(dense.to_sparse_csr(), dense.to_sparse_csr()).n_diff == 0


def test_whole_numbers_beyond_64_bits_are_compared_as_they_are() -> None:
    salt = 0x9E3779B97F4A7C15
    assert compare(0, "state[salt]", salt, salt) is None
    found = compare(0, "state[salt]", salt, salt + 1)
    assert found is not None and found.alias_mismatch == f"{salt + 1} instead of {salt}"
    assert measure(1e300, 1e299).max_abs > 1e299, "neither fits into float32"


def test_floats_of_python_are_compared_bit_by_bit_and_held_to_the_tolerance_of_float32() -> None:
    found = measure(1790000005.0, 1790000035.0)
    assert (found.n_diff, found.max_abs, found.dtype) == (1, 30.0, "float32")
    assert judge(Measurement((found,)), Criterion()).outcome is Outcome.PASS
    assert measure(0.5, 0.5).n_diff == 0
    assert judge(Measurement((measure(0.5, 0.5001),)), Criterion()).outcome is Outcome.FAIL


def test_each_element_is_held_to_a_step_of_its_own_size_and_to_what_rounding_moves_it_by() -> None:
    exact = torch.tensor([1e10, 1.0], dtype=torch.float64)
    eps = torch.finfo(torch.float32).eps
    eager, compiled = exact.float(), torch.tensor([1e10, 1 + 100 * eps])
    found = measure(eager, compiled, exact)
    assert found.steps_error_compiled == pytest.approx(100 / 2**0.5, rel=1e-3)
    assert found.steps_error_eager == 0
    moved = Exact(exact, torch.tensor([0.0, 100 * eps], dtype=torch.float64))
    held = compare(0, "output[0]", eager, compiled, moved)
    assert held is not None and held.steps_error_compiled == pytest.approx(0.7, abs=0.01)


def test_elements_that_rounding_moves_less_far_or_not_at_all_are_counted() -> None:
    eager, compiled = torch.tensor([5, 5, 5, 5]), torch.tensor([5, 6, 9, 4])
    reached = torch.tensor([[0.0], [1.0], [1.0], [0.0]], dtype=torch.float64)
    found = compare(0, "output[0]", eager, compiled, Exact(None, reached=lambda: reached))
    assert found is not None and (found.n_diff, found.unexplained, found.unmoved) == (3, 2, 1)
    one = torch.ones(1, 1, dtype=torch.float64)
    plain = compare(0, "output[0]", 126, 81, Exact(None, reached=lambda: one))
    assert plain is not None and (plain.unexplained, plain.unmoved) == (1, 0)


def test_rounding_before_an_output_without_any_is_noted_by_how_far_it_moves_it() -> None:
    made = list[int]()

    def moved(seed: int, most: int) -> dict[str, Any]:
        made.append(most)
        if most == 1:
            return {"output[0]": torch.tensor([1, 3, 3]), "output[1]": 7, "output[2]": torch.rand(3)}
        if seed == 0:
            raise IndexError("an index that is out of range, so far off")
        return {"output[0]": torch.tensor([1, 2, 9]), "output[1]": 4, "output[2]": torch.rand(3)}

    eager = {"output[0]": torch.tensor([1, 2, 3]), "output[1]": 7, "output[2]": torch.rand(3)}
    moves = Moves(eager, moved, draws=1)
    assert len(list(moves.by_one_step())) == 1
    noted = moves.references(None)
    assert noted["output[2]"].reached() is None, "floats round by themselves"
    assert made == [1], "the others are made once they are asked for"
    reached = noted["output[0]"].reached(), noted["output[1]"].reached()
    assert reached[0] is not None and reached[1] is not None
    assert reached[0].flatten().tolist() == [0.0, 1.0, 6.0]
    assert reached[1].flatten().tolist() == [3.0]
    assert made == [1, WIDE, WIDE], "once"


# -- the distance to the reference ---------------------------------------------------------------------------


def test_errors_are_root_mean_square_distances_to_the_reference() -> None:
    found = measure(of([1.0, 2.0]), of([1.0, 5.0]), of([1.0, 1.0], torch.float64))
    assert found.rms_error_eager == pytest.approx(math.sqrt(0.5))
    assert found.rms_error_compiled == pytest.approx(math.sqrt(8))
    assert found.rms_rounding == 0.0


def test_the_least_error_is_that_of_the_reference_rounded_to_the_dtype() -> None:
    exact = torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)
    rounded = exact.to(torch.bfloat16)
    found = measure(rounded * 1.5, rounded, exact)
    assert found.rms_error_compiled == pytest.approx(found.rms_rounding)
    assert found.rms_rounding == pytest.approx(float((rounded.double() - exact).square().mean().sqrt()))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e200])
def test_an_error_is_told_at_any_scale(scale: float) -> None:
    e, c, r = (of([x * scale], torch.float64) for x in (2.0, 5.0, 1.0))
    found = measure(e, c, r)
    assert (found.rms_error_eager, found.rms_error_compiled) == (
        pytest.approx(scale, rel=1e-9),
        pytest.approx(4 * scale, rel=1e-9),
    )


def test_elements_whose_finiteness_differs_from_the_references_are_counted_and_not_averaged() -> None:
    found = measure(of([1.0, INF, NAN]), of([INF, INF, 1.0]), of([1.0, INF, NAN], torch.float64))
    assert (found.reference_nonfinite_eager, found.reference_nonfinite_compiled) == (0, 2)
    assert (found.rms_error_eager, found.rms_error_compiled) == (0.0, 0.0)


def test_a_reference_of_another_shape_is_none() -> None:
    assert measure(of([1.0]), of([2.0]), of([1.0, 1.0])).rms_error_eager is None


def test_elements_that_are_far_off_at_their_own_size_are_counted_for_each_run_alone() -> None:
    """What `expm1` gives as exp(x) - 1: the small elements are lost beside the large ones."""
    exact = torch.cat([torch.ones(20), torch.full((20,), 1e-8)]).double()
    compiled = torch.where(exact < 1, 0.0, exact).float()
    still, moved = (Exact(exact, torch.full_like(exact, by)) for by in (0.0, 1e-8))
    held = compare(0, "output[0]", exact.float(), compiled, still)
    assert held is not None and held.far == FarElements(20, 0, pytest.approx(1e-8))
    turned = compare(0, "output[0]", compiled, exact.float(), still)
    assert turned is not None and turned.far == FarElements(0, 20, 0.0)
    noise = compare(0, "output[0]", exact.float(), compiled, moved)
    assert noise is not None and noise.far == FarElements(0, 0, 0.0), "rounding moves them as far"
    unknown = compare(0, "output[0]", exact.float(), compiled, Exact(exact))
    assert unknown is not None and unknown.far is None, "what rounding makes of them is not known"
