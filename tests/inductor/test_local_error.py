"""What counts as rounding, and what a node makes of the difference of its inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from bisector.inductor.dispatched_ops import DispatchedOps
from bisector.inductor.following.local_error import OtherWays, Scale, difference, gain, local

EPS = torch.finfo(torch.float32).eps
ONES = torch.ones(8)


def of(
    actual: torch.Tensor, expected: torch.Tensor, basic: bool = True, exact: Any = None
) -> tuple[float, bool]:
    """(ulp, beyond rounding) of an error that is there."""
    found = local(actual, expected, Scale.LAST_BIT if basic else Scale.WHOLE, OtherWays(lambda: exact))
    assert found.arises
    return found.ulp, found.beyond


def test_equal_bits_are_no_error_nan_included() -> None:
    x = torch.tensor([1.0, math.nan, -0.0, math.inf])
    assert not local(x, x.clone(), Scale.LAST_BIT, OtherWays(lambda: None)).arises


def test_eager_in_float64_is_no_reference_of_its_own_but_where_ieee_754_says_what_is_right() -> None:
    expected = torch.ones(8, dtype=torch.float64)
    asked = OtherWays(lambda: expected)
    found = local(expected + 1e-5, expected, Scale.WHOLE, asked)
    assert (found.beyond, found.wrong, found.eager_ulp) == (True, False, None)
    assert local(expected + 1e-5, expected, Scale.LAST_BIT, asked).wrong


@pytest.mark.parametrize(("alone", "wrong"), [(ONES, False), (ONES + 1, True), (None, False)])
def test_a_step_that_unrounded_inputs_make_is_wrong_where_the_node_by_itself_makes_it_too(
    alone: Any, wrong: bool
) -> None:
    """Compiled alone, it reads what was rounded for certain."""
    asked = OtherWays(lambda: ONES.double(), lambda: [ONES.double() + 1], by_itself=lambda: alone)
    found = local(ONES + 1, ONES, Scale.LAST_BIT, asked)
    assert (found.beyond, found.wrong) == (True, wrong)
    unknown = OtherWays(lambda: ONES.double(), lambda: None, by_itself=lambda: alone)
    assert local(ONES + 1, ONES, Scale.LAST_BIT, unknown).wrong is wrong
    never = OtherWays(lambda: ONES.double(), by_itself=lambda: pytest.fail("nothing explains it"))
    assert local(ONES + 1, ONES, Scale.LAST_BIT, never).wrong


def test_the_last_digit_of_a_basic_operation_is_rounding_and_a_hundred_are_not() -> None:
    assert of(ONES + EPS, ONES) == (1, False)
    assert of(ONES + 100 * EPS, ONES, exact=ONES.double()) == (100, True)


def test_a_small_element_counts_at_its_own_scale_only_where_each_one_is_told_to_the_last_bit() -> None:
    expected = torch.tensor([1.0, 1e-6])
    actual = torch.tensor([1.0, 1.1e-6])
    assert of(actual, expected, basic=True)[1]
    ulp, beyond = of(actual, expected, basic=False)
    assert ulp < 1.1 and not beyond


def test_what_eager_is_as_far_from_float64_is_rounding() -> None:
    """A sum that cancels: neither of two orders is nearer."""
    exact = torch.zeros(1, dtype=torch.float64) + 1e-9
    eager, compiled = torch.tensor([3e-8]), torch.tensor([-3e-8])
    assert not of(compiled, eager, False, exact)[1]
    assert of(compiled, torch.tensor([1e-9]), False, exact)[1]


def test_a_mean_that_cancels_rounds_by_the_size_of_its_terms() -> None:
    terms = torch.randn(1000, 8, generator=torch.Generator().manual_seed(0))
    eager = (terms - terms.mean(0)).mean(0)
    exact = (terms.double() - terms.double().mean(0)).mean(0)
    asked = OtherWays(lambda: exact, magnitudes=lambda: terms.abs().double().mean(0))
    near, far = eager + 2e-7, eager + 1e-3
    assert local(near, eager, Scale.OWN, asked).arises and not local(near, eager, Scale.OWN, asked).beyond
    assert local(far, eager, Scale.OWN, asked).wrong


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_integers_are_exact(dtype: torch.dtype) -> None:
    zeros = torch.zeros(4).to(dtype)
    assert of((zeros + 1).to(dtype), zeros) == (1, True)


def test_infinity_on_one_side_is_beyond_all_rounding() -> None:
    assert of(ONES / 0, ONES) == (math.inf, True)


def test_a_half_counts_in_steps_of_its_own() -> None:
    ones = torch.ones(4, dtype=torch.bfloat16)
    assert of(ones * 1.0078125, ones) == (1, False)


def test_a_complex_result_rounds_too() -> None:
    x = torch.ones(4, dtype=torch.complex64)
    assert not of(x * (1 + EPS), x)[1]
    assert of(x * 1.01, x)[1]


def test_the_difference_is_relative_to_the_largest_element() -> None:
    assert difference((torch.tensor([2.0, 4.5]), torch.tensor([2.0, 4.0]))) == 0.125
    assert difference((ONES, torch.ones(3))) == math.inf


def test_a_step_between_the_two_values_is_steep_however_far_apart_they_are() -> None:
    eager, compiled = torch.tensor([1.5, 3.01, 8.0]), torch.tensor([1.5, 2.98, 8.0])
    result = compiled.ceil(), eager.ceil()
    alone = gain(result, [(compiled, eager)], True, None)
    assert alone == pytest.approx((1 / 8) / (0.03 / 8), rel=1e-3)
    assert gain(result, [(compiled, eager)], True, torch.ceil) > 1e5


def test_a_smooth_function_is_as_steep_as_it_is() -> None:
    eager = torch.linspace(1, 2, 64)
    compiled = eager + 1e-4
    found = gain((compiled**3, eager**3), [(compiled, eager)], True, lambda x: x**3)
    assert found == pytest.approx(3.0, rel=0.05)


def test_rounding_a_small_number_up_to_a_large_one_is_no_gain() -> None:
    eager = torch.tensor([1e-12, 1.0])
    compiled = torch.tensor([2e-12, 1.0])
    result = torch.tensor([1.0 + EPS, 2.0]), torch.tensor([1.0, 2.0])
    assert gain(result, [(compiled, eager)], True, None) <= 1.0


def test_operations_are_known_by_what_they_call() -> None:
    def listed(fn: Any) -> DispatchedOps:
        x = torch.rand(4, 4)
        with DispatchedOps() as ops:
            fn(x)
        return ops

    assert listed(lambda x: x.view(16) * 2).name == "aten.mul"
    assert listed(lambda x: x.half()).name == "prims.convert_element_type"
    assert listed(lambda x: x.t()).name == "aten.t"
    assert listed(lambda x: x - x).basic
    assert not listed(torch.erf).basic and listed(torch.erf).elementwise
    assert not listed(lambda x: x @ x).elementwise
    assert listed(lambda x: x.flip(0)).basic and not listed(lambda x: x.flip(0)).elementwise


def test_an_operation_that_takes_one_shape_alone_is_held_against_its_own_inputs() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("two dimensions, please")

    eager, compiled = torch.tensor([[1.5, 3.01]]), torch.tensor([[1.5, 2.98]])
    assert gain((compiled.ceil(), eager.ceil()), [(compiled, eager)], True, refuses) < 1e3


def listed(fn: Any) -> tuple[tuple[str, ...], int]:
    with DispatchedOps() as ops:
        fn()
    return ops.names, ops.computing


def test_views_that_a_composite_makes_for_itself_are_not_listed_and_those_alone_are() -> None:
    x = torch.rand(2, 3, 4, 4)
    assert listed(lambda: x @ x) == (("aten.bmm",), 1)
    assert listed(lambda: x.transpose(0, 1)) == (("aten.transpose",), 0)


def test_a_write_into_a_part_computes_and_the_part_does_not() -> None:
    x = torch.rand(4)

    def shift() -> None:
        x[1:] = x[:-1].clone()

    assert listed(shift) == (("aten.clone", "aten.copy_"), 2)


@pytest.mark.parametrize(
    "make", [lambda x: torch.zeros_like(x), lambda x: torch.full((2,), 3.0), lambda x: x.new_ones(2)]
)
def test_a_constant_is_listed_and_does_not_compute(make: Any) -> None:
    names, computing = listed(lambda: make(ONES))
    assert (len(names), computing) == (1, 0)


def test_a_cast_has_the_name_that_inductor_gives_it() -> None:
    assert listed(lambda: ONES.half()) == (("prims.convert_element_type",), 1)
