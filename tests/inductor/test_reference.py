"""The float64 run and the run with every result moved by one ulp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from bisector.errors import first_line
from bisector.inductor import tensors
from bisector.inductor.evidence import EagerRun
from bisector.inductor.nudges import Nudged, OneUlp, nudge
from bisector.inductor.reference import Float64, NoReference, widened

ONES = torch.ones(4)
EPS32 = torch.finfo(torch.float32).eps


def reference(fn: Callable[..., Any], *args: Any) -> Any:
    """The float64 result, and the names of the ops that ran narrower."""
    mode = Float64(EPS32)
    with mode:
        result = fn(*widened(args))
    return result, mode.narrow


def nudged(fn: Callable[..., Any], *args: Any, seed: int = 0) -> Any:
    gm = torch.fx.symbolic_trace(fn)
    return OneUlp(gm, seed).run(*args)


# -- in float64 -----------------------------------------------------------------------------------------


def test_a_float32_program_runs_in_float64() -> None:
    x = torch.tensor([1 / 3, 2 / 3])
    result, narrow = reference(lambda x: torch.exp(x) * 3, x)
    assert torch.equal(result, torch.exp(x.double()) * 3)
    assert not narrow


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.half().float(),
        lambda x: x.to(torch.bfloat16),
        lambda x: x.type(torch.float16),
        lambda x: torch.ops.prims.convert_element_type(x, torch.bfloat16),
        lambda x: x.to(torch.zeros(1)),
    ],
)
def test_explicit_casts_to_a_narrower_float_do_not_round(cast: Callable[[Any], Any]) -> None:
    x = torch.tensor([1 / 3])
    result, _ = reference(lambda x: cast(x) * 1, x)
    assert result.dtype is torch.float64
    assert result.item() == x.double().item()


def test_a_cast_to_an_integer_or_to_float8_is_a_step_of_the_program_and_stays() -> None:
    x = torch.tensor([0.3, 1.7])
    assert reference(lambda x: x.to(torch.int32), x)[0].tolist() == [0, 1]
    assert reference(lambda x: x.to(torch.float8_e4m3fn).float(), x)[0].tolist() == [0.3125, 1.75]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(4),
        lambda: torch.zeros(4, dtype=torch.float32),
        lambda: torch.empty(4).fill_(0),
        lambda: torch.full((4,), 0.0),
        lambda: torch.tensor([0.0] * 4),
        lambda: torch.linspace(0, 0, 4),
    ],
)
def test_what_a_program_makes_and_then_writes_into_is_in_float64_too(make: Callable[[], Any]) -> None:
    def add(x: Any) -> Any:
        z = make()
        z.add_(x)
        z[0] = 5
        return z * 2

    result, _ = reference(add, ONES / 3)
    assert result.dtype is torch.float64
    assert torch.equal(result[1:], (ONES / 3).double()[1:] * 2)
    assert result[0] == 10


def test_a_write_into_a_tensor_that_is_no_input_has_no_reference() -> None:
    held = torch.zeros(4)
    with pytest.raises(NoReference, match="writes into"):
        reference(lambda x: held.add_(x), ONES)


def test_inputs_that_overlap_in_memory_overlap_in_the_reference() -> None:
    """What one of them is given, the other one has (pytorch#139789)."""

    def bumped(left: Any, right: Any) -> Any:
        left.add_(10)
        return left * right

    store = torch.arange(6.0)
    args = tensors.snapshot([store[:3], store[1:4]])
    wide, _ = reference(bumped, *args)
    assert torch.equal(wide, bumped(*tensors.snapshot([store[:3], store[1:4]])).double())
    left, right = widened(args)
    assert left.dtype is right.dtype is torch.float64
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    assert (left.storage_offset(), right.storage_offset()) == (0, 1)


def test_an_expanded_input_stays_one_element_in_the_reference() -> None:
    one = torch.ones(1)
    [wide] = widened([one.expand(4)])
    assert wide.stride() == (0,) and wide.dtype is torch.float64
    assert torch.equal(wide, torch.ones(4).double())


def test_gradients_are_those_of_each_input_that_overlaps() -> None:
    store = torch.arange(4.0)
    inputs = tensors.fresh([store[:2], store[1:3], store.new_ones(2)], [True, False, True])
    wide = widened(inputs)
    assert [w.requires_grad for w in wide] == [True, False, True]
    assert all(w.is_leaf for w in wide)


def test_inputs_of_two_dtypes_in_one_memory_have_no_reference() -> None:
    store = torch.arange(4.0)
    with pytest.raises(NoReference, match="several dtypes lie in the same memory"):
        widened([store[:2], store.view(torch.int32)])


@pytest.mark.parametrize(
    "draw",
    [torch.rand_like, lambda x: F.dropout(x, 0.5), lambda x: torch.bernoulli(x), lambda x: x.normal_()],
)
def test_a_program_that_draws_has_no_reference(draw: Callable[[Any], Any]) -> None:
    with pytest.raises(NoReference, match="random"):
        reference(draw, ONES.clone())


def test_attention_draws_only_where_it_drops() -> None:
    q = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
    result, _ = reference(lambda q: F.scaled_dot_product_attention(q, q, q), q)
    assert torch.allclose(result, F.scaled_dot_product_attention(q.double(), q.double(), q.double()))
    with pytest.raises(NoReference, match="random"):
        reference(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), q)


def test_a_program_that_reads_the_bits_of_a_float_has_no_reference() -> None:
    with pytest.raises(NoReference, match="bits"):
        reference(lambda x: x.view(torch.int32) >> 23, ONES)


def test_a_program_that_reads_the_bytes_of_integers_has_one() -> None:
    codes = torch.tensor([1, 256], dtype=torch.int32)
    result, _ = reference(lambda x: x.view(torch.uint8)[1::4] * 1.5, codes)
    assert result.tolist() == [0.0, 1.5]


def test_an_op_without_a_float64_kernel_runs_narrow_and_is_named() -> None:
    weight, scales = torch.ones(8, 8, dtype=torch.int8), torch.ones(8)
    result, narrow = reference(
        lambda x: torch.ops.aten._weight_int8pack_mm(x, weight, scales), torch.ones(4, 8)
    )
    assert result.dtype is torch.float64
    assert result.eq(8).all()
    assert narrow == {"aten._weight_int8pack_mm.default"}


def test_an_op_that_fails_in_any_precision_raises_its_own_error() -> None:
    with pytest.raises(RuntimeError, match="size"):
        reference(lambda x: x + torch.ones(3), ONES)


def test_gradients_are_computed_in_float64() -> None:
    x = torch.tensor([1 / 3], requires_grad=True)
    mode = Float64(EPS32)
    [wide] = widened([x])
    with mode:
        (torch.exp(wide.half().float()) * 3).backward()
    assert wide.grad.dtype is torch.float64
    assert torch.allclose(wide.grad, 3 * torch.exp(x.detach().double()), rtol=1e-15)


def test_integers_and_bools_are_inputs_as_they_are() -> None:
    ints, flags = torch.arange(3), torch.tensor([True, False])
    assert widened([ints, flags, 3, None])[:2] == [ints, flags]


# -- one ulp at each node ---------------------------------------------------------------------------------


def worst_ulp(moved: Any, fixed: Any) -> float:
    return float(((moved - fixed).abs() / fixed.abs()).max()) / EPS32


def test_a_well_conditioned_graph_moves_by_some_ulp() -> None:
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0)) + 0.1

    def fn(x: Any) -> Any:
        return torch.sqrt(x * 3 + 1) / 7

    moved = nudged(fn, x)
    assert 0 < worst_ulp(moved, fn(x)) < 8


def test_an_ill_conditioned_graph_moves_far() -> None:
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0)) + 1

    def fn(x: Any) -> Any:
        return x * 1.1 - x * 1.0999

    assert worst_ulp(nudged(fn, x), fn(x)) > 1000


def test_the_seed_decides_what_moves_where() -> None:
    def fn(x: Any) -> Any:
        return x / 3

    x = torch.rand(100, generator=torch.Generator().manual_seed(0)) + 1
    assert torch.equal(nudged(fn, x, seed=1), nudged(fn, x, seed=1))
    assert not torch.equal(nudged(fn, x, seed=1), nudged(fn, x, seed=2))


def test_the_terms_of_a_sum_move_so_that_cancellation_shows() -> None:
    x = torch.tensor([[0.7, 0.9, 0.7, 0.9]])
    w = torch.tensor([[1.0], [1.0], [-1.0], [2.0**-20 - 1.0]])  # of few terms, since sums of many round more
    moved = [nudged(lambda x, w: torch.matmul(x, w), x, w, seed=seed) for seed in range(5)]
    assert max(worst_ulp(one, torch.matmul(x, w)) for one in moved) > 1000


@pytest.mark.parametrize(
    "exact",
    [
        lambda x: torch.ceil(x),
        lambda x: x.floor().to(torch.int8),
        lambda x: torch.round(x),
        lambda x: F.relu(x),
        lambda x: torch.cat([x, x]),
        lambda x: x.clone(),
        lambda x: x.clamp(-1, 1),
        lambda x: x[[0, 2]],
        lambda x: x.double(),
        lambda x: x.t().contiguous(),
        lambda x: torch.where(x > 0, x, 0.5),
        lambda x: torch.max(x, 0)[0],
        lambda x: torch.zeros_like(x),
        lambda x: -x,
        lambda x: x.half().float(),
    ],
)
def test_what_rounds_nothing_is_not_moved(exact: Callable[[Any], Any]) -> None:
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)) * 3
    assert torch.equal(nudged(exact, x), exact(x))


@pytest.mark.parametrize(("step", "moves"), [(0.1, True), (1.0, False), (0.25, True)])
def test_a_grid_is_moved_where_its_step_rounds_and_its_reference_has_the_step_as_written(
    step: float, moves: bool
) -> None:
    """What is no whole number counts as rounded."""
    def grid(x: Any) -> Any:
        return torch.arange(0.0, 30.0, step) + x * 0

    x = torch.zeros(())
    assert (not torch.equal(nudged(grid, x), grid(x))) == moves
    with Float64(EPS32):
        found = torch.arange(0.0, 30.0, step)
    assert torch.equal(found, torch.arange(0.0, 30.0, step, dtype=torch.float64))


def test_a_part_of_a_result_that_is_rounded_is_moved() -> None:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(nudged(lambda x: torch.var_mean(x, 1)[0], x), torch.var_mean(x, 1)[0])


def test_a_cast_to_a_coarser_float_is_a_step_on_purpose_and_its_ulp_no_error() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))

    def fn(x: Any) -> Any:
        return (x.half() * 2).float()

    moved = nudged(fn, x)
    assert torch.equal(moved, fn(x))


def test_a_program_in_bfloat16_moves_by_ulp_of_bfloat16() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).bfloat16()
    moved = nudged(lambda x: x * 3, x)
    assert moved.dtype is torch.bfloat16
    assert 0 < float(((moved - x * 3).float().abs() / (x * 3).float().abs()).max()) <= 2**-6


def test_the_largest_float_does_not_become_infinite_nor_zero_something() -> None:
    x = torch.tensor([0.0, -0.0, float("inf"), float("nan"), torch.finfo(torch.float32).max])
    for seed in range(8):
        moved = nudged(lambda x: torch.mul(x, 1.0), x, seed=seed)
        assert torch.equal(moved[:2], x[:2])
        assert moved[4].isfinite()
        assert moved[2:4].isfinite().sum() == 0


@pytest.mark.parametrize("fn", [torch.mul, torch.floor_divide, torch.add, torch.pow])
def test_a_float32_program_takes_a_number_as_a_float32(fn: Any) -> None:
    wide = (torch.arange(1, 200).float() / 10).double()
    with Float64(EPS32):
        found = fn(wide, 0.3)
    assert torch.equal(found, fn(wide, torch.tensor(0.3).double()))
    with Float64(torch.finfo(torch.float64).eps):
        assert torch.equal(fn(wide, 0.3), fn(wide, torch.tensor(0.3, dtype=torch.float64)))
    with Float64(EPS32):
        assert torch.equal(fn(wide, 1e300), fn(wide, torch.tensor(1e300, dtype=torch.float64)))


def test_what_an_operation_writes_in_place_is_moved_there() -> None:
    def in_place(x: Any) -> Any:
        y = x.clone()
        y.add_(1 / 3)
        return y

    def beside(x: Any) -> Any:
        y = torch.zeros_like(x)
        y.copy_(x)
        return y

    moved = nudged(in_place, ONES)
    assert 0 < worst_ulp(moved, in_place(ONES)) <= 1
    with Nudged(0):
        also = in_place(ONES)
    assert 0 < worst_ulp(also, in_place(ONES)) <= 1
    assert torch.equal(nudged(beside, ONES / 3), ONES / 3), "a copy rounds nothing"


def test_gradients_pass_through_a_moved_node() -> None:
    x = torch.rand(10, generator=torch.Generator().manual_seed(0)).add(1).requires_grad_()
    nudged(lambda x: (x * x).sum(), x).backward()
    assert torch.allclose(x.grad, 2 * x.detach())


@pytest.mark.parametrize(
    ("fn", "eps"),
    [
        (lambda x: x.bfloat16() * 2, 2**-7),
        (lambda x: (x.bfloat16() * 2).float(), EPS32),
        (lambda x: x.double() * 2, 2**-52),
        (lambda x: x.to(torch.float8_e4m3fn), 1.0),
        (lambda x: x > 0, 1.0),
    ],
)
def test_the_finest_float_of_a_graph_is_that_of_its_results(fn: Callable[[Any], Any], eps: float) -> None:
    finest = EagerRun(torch.fx.symbolic_trace(fn))
    finest.run(ONES)
    assert finest.eps == eps


def test_a_reason_is_one_line() -> None:
    assert first_line(ValueError("a\nb")) == "ValueError: a"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("x" * 10_000))) < 400


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_nudge_is_one_step_of_the_dtype_as_often_up_as_down(dtype: torch.dtype) -> None:
    x = torch.linspace(1.001, 1.999, 4096, dtype=torch.float64).to(dtype)
    x = x[x != x.round()]
    steps = ((nudge(x, 0).double() - x.double()) / torch.finfo(dtype).eps).round()
    assert set(steps.tolist()) == {-1.0, 1.0}
    assert abs(float(steps.mean())) < 0.1


def test_rounding_moves_a_product_of_many_factors_to_both_sides() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x.prod(-1))
    x = 1 + 0.02 * torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
    eager = x.prod(-1)
    moved = [(OneUlp(gm, seed).run(x) - eager) / eager for seed in range(4)]
    steps = torch.stack(moved) / torch.finfo(torch.float32).eps
    assert 8 < float(steps.abs().mean()) < 500
    assert 0.3 < float((steps > 0).float().mean()) < 0.7


def test_one_ulp_reaches_the_operations_of_a_checkpoint() -> None:
    def within(x: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x, -1).sum(-1) - 1) * 1e6

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(within, x, use_reentrant=False)

    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    graphs: list[torch.fx.GraphModule] = []
    torch.compile(fn, backend=lambda gm, _: graphs.append(gm) or gm.forward)(x)
    moved = OneUlp(graphs[0], 0).run(x)
    assert float((torch.utils._pytree.tree_leaves(moved)[0] - fn(x)).detach().abs().max()) > 1e-3
