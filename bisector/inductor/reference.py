"""Two more eager runs that a verdict needs: one in float64, one with every result moved by one ulp.

The first is the yardstick (the idea of torch._dynamo.utils.same). The second asks how much the graph
amplifies rounding: where one ulp at each node moves the output beyond tolerance, two correct programs
may differ that much (the idea of stochastic arithmetic, CADNA and Verrou).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class NoReference(Exception):
    """There is no float64 run of this graph; the message says why."""


def widen(value: Any) -> Any:
    """A float tensor or dtype in double precision; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    return value


class Float64(TorchDispatchMode):
    """Runs every ATen call in double precision, explicit casts to a narrower float included.

    An op without a float64 kernel runs as the program has it, its result widened; `narrow` names these.
    """

    def __init__(self) -> None:
        super().__init__()
        self.narrow: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise NoReference(f"{func} draws random numbers, which differ in float64")
        if func is torch.ops.aten.view.dtype:
            raise NoReference("the graph reads the bits of a float (view with a dtype)")
        wide_args, wide_kwargs = pytree.tree_map(widen, (args, kwargs or {}))
        try:
            return func(*wide_args, **wide_kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if func._schema.is_mutable:
                raise NoReference(f"{func} does not run in float64: {first_line(error)}") from error
        self.narrow.add(str(func))
        return pytree.tree_map(widen, func(*args, **(kwargs or {})))


class OneUlp(torch.fx.Interpreter):
    """Runs a graph in eager with the result of each computing node moved by one ulp, up or down.

    Only nodes of the finest float dtype in the graph are moved: an ulp of a coarser one (a cast to
    float16 in a float32 program) is no rounding error of the program but a step it takes on purpose.
    """

    def __init__(self, gm: torch.fx.GraphModule, seed: int, finest: float) -> None:
        super().__init__(gm)
        self.random = random.Random(seed)
        self.finest = finest

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op not in ("call_function", "call_method") or not isinstance(result, torch.Tensor):
            return result
        if not result.is_floating_point() or result._is_view() or self._is_argument(n, result):
            return result
        if torch.finfo(result.dtype).eps > self.finest:
            return result
        return _nudge(result, self.random.getrandbits(62))

    def _is_argument(self, n: torch.fx.Node, result: torch.Tensor) -> bool:
        """An in-place node returns its own argument; moving that would be another program."""
        return any(self.env.get(a) is result for a in n.all_input_nodes)


class FinestEps(torch.fx.Interpreter):
    """Runs a graph and keeps the smallest machine epsilon among its float results."""

    eps = 1.0

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and n.op != "placeholder":
            self.eps = min(self.eps, torch.finfo(result.dtype).eps)
        return result


def _nudge(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    up = torch.randint(0, 2, x.shape, generator=generator, dtype=torch.int8).to(x.device).bool()
    eps = torch.finfo(x.dtype).eps
    with torch.no_grad():
        moved = torch.where(up, x * (1 + eps), x * (1 - eps / 2)).to(x.dtype)
    return x + (moved - x).detach() if x.requires_grad else moved


def first_line(error: BaseException) -> str:
    """Type and first line of an exception's text, for a reason that fits one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def widened(args: Sequence[Any]) -> list[Any]:
    """Inputs of a float64 run; requires_grad is kept."""
    out = []
    for a in args:
        wide = widen(a)
        if isinstance(a, torch.Tensor) and a.requires_grad:
            wide = wide.detach().requires_grad_()
        out.append(wide)
    return out
