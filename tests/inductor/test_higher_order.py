"""Modes of ours look into the functions that a higher-order operator takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from bisector.inductor.eager_again import Undeclared
from bisector.inductor.nudges import Nudged
from bisector.inductor.reference import Float64, widen
from bisector.inductor.undefined import UndefinedCalls

EPS32 = torch.finfo(torch.float32).eps


def branch(x: Any) -> Any:
    return torch.cond(x.sum() > -1e9, lambda t: t.sin().exp(), lambda t: t.cos(), (x,))


def steps(x: Any) -> Any:
    return scan(lambda carry, row: (carry * 0.5 + row.sin(), (carry + row).clone()), x[0], x)


def mapped(x: Any) -> Any:
    return map_over(lambda row: row.sin() * 3, x)


def summed(x: Any) -> Any:
    return associative_scan(lambda a, b: a * 0.9 + b, x, 0, combine_mode="generic")


def looped(x: Any) -> Any:
    return while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t.sin()), (torch.tensor(0), x))[1]


def attended(x: Any) -> Any:
    heads = x.reshape(1, 1, *x.shape)
    return flex_attention(heads, heads, heads, score_mod=lambda score, b, h, q, k: score * 2 + (q - k))


def again(x: Any) -> Any:
    return checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)


OPERATORS = [branch, steps, mapped, summed, looped, attended, again]


def first(result: Any) -> Any:
    return result if isinstance(result, torch.Tensor) else first(result[-1])


@pytest.fixture
def x() -> Iterator[Any]:
    with torch.compiler.set_stance("force_eager"):  # as a script is run; else these operators are compiled
        yield torch.rand(4, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_what_runs_within_is_done_in_double_precision_and_moved_by_an_ulp(function: Any, x: Any) -> None:
    plain = first(function(x))
    with Float64(EPS32):
        wide = first(function(widen(x)))
    assert wide.dtype is torch.float64
    assert 0 < (wide - plain.double()).abs().max() < 1e-5
    with Nudged(0):
        moved = first(function(x))
    assert 0 < (moved - plain).abs().max() < 1e-5
    with UndefinedCalls() as undefined, Undeclared() as undeclared:
        assert torch.equal(first(function(x)), plain)
    assert (undefined.reason, undeclared.violation) == (None, "")


@pytest.mark.filterwarnings("ignore")
def test_a_gradient_comes_back_through_a_branch_that_a_mode_looks_into(x: Any) -> None:
    def gradient() -> Any:
        [y] = torch.cond(x.sum() > 0, lambda t: (t.sin().exp(),), lambda t: (t.cos(),), (x,))
        return torch.autograd.grad(y.sum(), x)[0]

    x.requires_grad_()
    plain = gradient()
    with Nudged(0):
        moved = gradient()
    assert 0 < (moved - plain).abs().max() < 1e-5


def test_an_undefined_cast_within_a_branch_is_seen(x: Any) -> None:
    with UndefinedCalls() as calls:
        torch.cond(x.sum() > 0, lambda t: (t * -300).to(torch.uint8), lambda t: t.to(torch.uint8), (x,))
    assert calls.reason is not None and calls.reason.startswith("a cast of ")
