"""The programs of the self-test: each comes to decisions of a few kinds, with little else to compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from ...core import kinds
from ...core.kinds import Kind

Inputs = list[torch.Tensor]


@dataclass(frozen=True)
class Program:
    """kinds: those that are denied in it, one after the other. run: the program, traced by Dynamo.

    settings: Inductor's, over the defaults. flags: settings of a subject without any of which it never comes
    to these kinds, so that the program is not needed; empty: always needed. train: a gradient is traced too.
    """

    kinds: tuple[Kind, ...]
    run: Callable[..., Any]
    inputs: Callable[[], Inputs]
    settings: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    train: bool = False


def _ones(*shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    return lambda: [torch.ones(*shape, dtype=torch.float32) for shape in shapes]


def _shifted(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    product = x * scale
    return product.amin(-1, keepdim=True) - product


def _low(x: torch.Tensor) -> torch.Tensor:
    return x.exp().half() + 1.7


def _reduced(x: torch.Tensor) -> torch.Tensor:
    return x[:, :4].sum(-1) * x.var(-1)


def _rewritten(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(F.silu(x), x) + (x + torch.zeros_like(x))


def _convolved(image: torch.Tensor) -> torch.Tensor:
    return F.conv2d(image, image)


def _stored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    first = torch.mm(w, x)  # computed last (reorder_for_locality), where the memory of `second` is free
    second = torch.mm(x, w)
    return torch.mm(torch.mm(second, x).tanh(), first)


def _bent(x: torch.Tensor) -> torch.Tensor:
    return (x.sigmoid() + 1).tanh().cos()


class _Weighted(torch.nn.Module):
    """An op and its weight, which freezing makes a constant."""

    def __init__(self, op: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.op = op
        self.weight = torch.nn.Parameter(torch.ones(*shape, dtype=torch.float32), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, self.weight)


_SCALAR = {"cpp.simdlen": 1}  # less code to generate
_TUNING = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP"}  # one choice: nothing is timed

PROGRAMS = (
    Program(
        (kinds.LOWER, kinds.INLINE, kinds.FUSE, kinds.FMA), _shifted, _ones((32, 32), (32, 1)),
        # Without contraction there is no `fma` to deny.
        {"cpp.enable_floating_point_contract_flag": "fast"},
    ),
    Program((kinds.CAST, kinds.CONST, kinds.VEC), _low, _ones((32, 32))),
    Program((kinds.UNROLL, kinds.WELFORD), _reduced, _ones((32, 32)), _SCALAR),
    Program((kinds.DECOMP, kinds.MATCH, kinds.CFOLD), _rewritten, _ones((32, 32)), _SCALAR),
    Program((kinds.LAYOUT,), _convolved, _ones((2, 2, 4, 4)), _SCALAR),
    Program((kinds.PASS, kinds.INPLACE, kinds.REUSE), _stored, _ones((32, 32), (32, 32)), _SCALAR),
    Program((kinds.REMAT,), _bent, _ones((8, 8)), _SCALAR, train=True),
    Program(
        (kinds.PREPACK,), _Weighted(F.conv2d, 4, 4, 3, 3), _ones((1, 4, 8, 8)), {**_SCALAR, "freezing": True},
        flags=("freezing",),
    ),
    Program(
        (kinds.TEMPLATE,), _Weighted(F.linear, 64, 64), _ones((32, 64)), {**_TUNING, "freezing": True},
        flags=("max_autotune", "max_autotune_gemm"),
    ),
)  # fmt: skip
