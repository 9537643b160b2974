"""inline, fma and cast: what is rounded, and when. Values against eager on the real compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch._inductor.config as inductor_config

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")

INLINE, FMA = "inline:aten.mul@mul_1", "fma:sub@mul_1"
HALF_INLINE, HALF_CAST = "inline:prims.convert_element_type@half", "cast:float16@half"
BRAIN_CAST = "cast:bfloat16@bfloat16"
FUSE = "fuse:rounded@half"
RoundTrip = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


@pytest.fixture
def contraction() -> Iterator[None]:
    with inductor_config.patch({"cpp.enable_floating_point_contract_flag": "fast"}):
        yield


def shifted_exp(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    top = (x * scale).amax(-1, keepdim=True)
    return (x * scale - top).sum(-1)


def shifted_inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(16, 33, generator=generator) * 1e4, torch.rand(1, generator=generator) * 1e4]


def unrolled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sum(-1)


def round_trip(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rounded = x.half().float()
    return rounded, rounded * 3


def brain_round_trip(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rounded = x.bfloat16().float()
    return rounded, rounded * 3


def fraction() -> list[torch.Tensor]:
    return [torch.arange(40.0) / 7]


@pytest.mark.usefixtures("contraction")
def test_the_product_under_the_difference_is_listed_with_its_inlining() -> None:
    ids = compile_only(shifted_exp, shifted_inputs(), Control()).ids
    assert {INLINE, FMA, "inline:aten.mul@mul"} <= set(ids)


@pytest.mark.usefixtures("contraction")
def test_a_denied_contraction_rounds_the_product_in_scalar_and_vector_code() -> None:
    source = compile_only(shifted_exp, shifted_inputs(), deny(FMA)).source
    scalar = compile_only(shifted_exp, shifted_inputs(), deny(FMA, "vec:loop@sum_1")).source
    assert "numbisect_rounded(tmp" in source and "at::vec::Vectorized<float>" in source
    assert "numbisect_rounded(tmp" in scalar


def test_no_contraction_is_listed_where_the_compiler_may_not_contract() -> None:
    ids = compile_only(shifted_exp, shifted_inputs(), Control()).ids
    assert INLINE in ids
    assert not [i for i in ids if i.startswith("fma:")]


@pytest.mark.usefixtures("contraction")
def test_each_product_of_an_unrolled_sum_is_its_own_decision() -> None:
    inputs = [torch.ones(8, 4), torch.ones(8, 4)]
    ids = compile_only(unrolled, inputs, Control()).ids
    assert [i for i in ids if i.startswith("fma:")] == [
        "fma:sum_1@mul",
        "fma:sum_1#1@mul",
        "fma:sum_1#2@mul",
        "fma:sum_1#3@mul",
    ]


@pytest.mark.usefixtures("contraction")
def test_a_sum_over_a_loop_is_a_consumer_too() -> None:
    inputs = [torch.ones(8, 64), torch.ones(8, 64)]
    assert "fma:sum_1@mul" in compile_only(unrolled, inputs, Control()).ids
    assert "numbisect_rounded" in compile_only(unrolled, inputs, deny("fma:sum_1@mul")).source


@pytest.mark.parametrize(("function", "cast"), [(round_trip, HALF_CAST), (brain_round_trip, BRAIN_CAST)])
def test_the_cast_of_a_round_trip_is_decisive(function: RoundTrip, cast: str) -> None:
    eager = list(function(*fraction()))
    default = compile_and_run(function, fraction(), Control())
    assert cast in default.ids
    assert not default.agrees_with(eager)
    assert compile_and_run(function, fraction(), deny(cast)).agrees_with(eager)


def test_an_elided_cast_needs_its_producer_in_the_same_kernel() -> None:
    eager = list(round_trip(*fraction()))
    assert compile_and_run(round_trip, fraction(), allow()).agrees_with(eager)
    assert compile_and_run(round_trip, fraction(), allow(HALF_INLINE)).agrees_with(eager)
    assert not compile_and_run(round_trip, fraction(), allow(HALF_INLINE, HALF_CAST)).agrees_with(eager)


def normalized(x: torch.Tensor, rows: torch.Tensor, w: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """The sum reads enough to be stored: in a buffer of the kernel, for two of its loops."""
    y = (rows * w[:, None])[order].view(32, 2, 64).sum(1).bfloat16()
    wide = (x + y).float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).bfloat16()


@pytest.mark.live
def test_a_buffer_that_is_local_to_a_kernel_is_rounded_for_what_reads_it_there() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 64), (64, 64), (64,)]
    args = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    args.append(torch.randperm(64, generator=generator))
    expected = [normalized(*args)]
    default = compile_and_run(normalized, args, Control())
    assert "local_buffer_data" in default.source and not default.agrees_with(expected)
    casts = [i for i in default.ids if i.startswith("cast:")]
    assert "cast:bfloat16@add" in casts
    others = [i for i in casts if i != "cast:bfloat16@add"]
    assert compile_and_run(normalized, args, deny(*casts)).agrees_with(expected)
    assert not compile_and_run(normalized, args, deny(*others)).agrees_with(expected)


@pytest.mark.parametrize(
    ("function", "fuse", "cast"),
    [
        (round_trip, FUSE, HALF_CAST),
        (brain_round_trip, "fuse:rounded@bfloat16", BRAIN_CAST),
    ],
)
def test_a_stored_buffer_is_rounded_for_its_fused_user_unless_the_cast_is_elided(
    function: RoundTrip, fuse: str, cast: str
) -> None:
    eager = list(function(*fraction()))
    assert compile_and_run(function, fraction(), allow(fuse)).agrees_with(eager)
    assert not compile_and_run(function, fraction(), allow(fuse, cast)).agrees_with(eager)


def scalar_sum(x: torch.Tensor) -> torch.Tensor:
    return x.half() + 1.7


def test_a_scalar_that_eager_rounds_is_a_decision_of_its_own() -> None:
    eager = [scalar_sum(*fraction())]
    ids = compile_only(scalar_sum, fraction(), Control()).ids
    members = [i for i in ids if i.startswith(("cast:", "const:"))]
    assert sorted(i.partition("@")[0] for i in members) == ["cast:float16", "const:float16"]
    assert compile_and_run(scalar_sum, fraction(), deny(*members)).agrees_with(eager)
    for member in members:
        denied = compile_and_run(scalar_sum, fraction(), deny(member))
        assert not denied.agrees_with(eager)
        assert denied.ids == ids


def test_a_tensor_of_one_number_is_computed_again_without_a_decision() -> None:
    ids = compile_only(lambda x: (x * 2 + torch.full((4,), 0.1)).sum(-1), [torch.ones(8, 4)], Control()).ids
    assert [i for i in ids if i.startswith("inline:aten.mul@")]
    assert not [i for i in ids if i.startswith("inline:aten.full@")]


def test_the_scalar_of_a_difference_is_a_decision_too() -> None:
    ids = compile_only(lambda x: x.half() - 1.7, fraction(), Control()).ids
    assert [i.partition("@")[0] for i in ids if i.startswith("const:")] == ["const:float16"]
