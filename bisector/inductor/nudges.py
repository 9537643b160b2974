"""Eager with every result moved by one step of its dtype: how much a program amplifies rounding.

Where one ulp at each operation moves an output beyond the tolerance, two correct programs may differ that
much (the idea of stochastic arithmetic, CADNA and Verrou).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

from .higher_order import is_higher_order, run_under
from .products import CONVOLUTIONS, MATRIX_PRODUCTS, factor_eps
from .reference import short_name
from .rounding import eps_of, finest_of, rounding_of

# Results that are exact whatever the inputs: a value moved after one of these is no rounding error.
_EXACT = frozenset({
    "_to_copy", "abs", "absolute", "amax", "amin", "argmax", "argmin", "bfloat16", "broadcast_to",
    "cat", "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "concat", "concatenate",
    "constant_pad_nd", "contiguous", "convert_element_type", "copy", "copysign", "cummax", "cummin", "detach",
    "diag", "double", "embedding", "expand", "fill", "flip", "float", "floor", "frac", "full", "full_like",
    "gather", "getitem", "half", "hardtanh", "hstack", "index_copy", "index_fill", "index_put",
    "index_select", "masked_fill", "masked_scatter", "masked_select", "max", "max_pool1d", "max_pool2d",
    "max_pool3d", "maximum", "min", "minimum", "narrow", "neg", "negative", "one_hot", "ones", "ones_like",
    "pad", "permute", "relu", "relu6", "repeat",
    "repeat_interleave", "requires_grad", "reshape", "resize", "roll", "round", "scatter", "set", "sign",
    "sort", "split", "squeeze", "stack", "take", "to", "topk", "transpose", "tril", "triu", "trunc", "type",
    "type_as", "unbind", "unflatten", "unsqueeze", "view", "vstack", "where", "zero", "zeros", "zeros_like",
})  # fmt: skip
# Sums of many terms or products: where they cancel, their rounding is many ulp of the result.
_ATTENTION = "scaled_dot_product_attention"
_AVERAGES = {f"{kind}avg_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3)}
_PLAIN_SUMS = {"cumsum", "index_add", "mean", "nanmean", "nansum", "scatter_add", "sum", "trace"}
LINEAR = (CONVOLUTIONS | MATRIX_PRODUCTS | _AVERAGES | _PLAIN_SUMS) - {_ATTENTION}
_SUMS = LINEAR | {
    _ATTENTION, "cumprod", "dist", "linalg_vector_norm", "norm", "prod", "std", "std_mean", "var", "var_mean",
    "vector_norm",
}  # fmt: skip
# Functions that are approximated, or that round many times: what they give is rounded also where it is a
# whole number by luck.
_APPROXIMATED = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "elu", "erf", "erfc", "erfinv",
    "exp", "exp2", "expm1", "gelu", "hypot", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid",
    "log_softmax", "logaddexp", "logit", "logsigmoid", "logsumexp", "mish", "rsqrt", "selu", "sigmoid",
    "silu", "sin", "sinh", "softmax", "softplus", "std", "std_mean", "tan", "tanh", "var", "var_mean",
    "_log_softmax", "_softmax",
})  # fmt: skip
_POWERS = frozenset({"pow", "__pow__", "__rpow__", "float_power"})
# Sums, differences and products of a few multiples of this are exact, so that a whole number is one.
_SHORT = 1 / 1024
_EXACT_INTEGERS = 1 << 20  # larger floats are integers because they have no digits left
# Times the machine epsilon: less than a step where the mantissa is near 1 and more where it is near 2, both
# rounded to one. A larger step upwards than downwards adds up in a product of many factors.
_AS_FAR_DOWN_AS_UP = 0.75


class Step:
    """How a value is moved. seed: of the draws. most: steps of its dtype that it is moved by, at most."""

    def __init__(self, seed: int, most: int = 1) -> None:
        self.random = random.Random(seed)
        self.most = most

    def result(self, value: Any, finest: float, name: str, args: Any) -> Any:
        """What an operation gives, moved. finest: machine epsilon of the finest float that it hangs on: a
        step of a coarser dtype (a cast to float16 of a float32) is none that rounding makes, but taken on
        purpose. args: of the operation."""
        return self._moved(value, finest, lambda: _is_whole(name, args))

    def terms(self, name: str, args: Any, finest: float) -> Any:
        """The arguments of an operation, moved where they are terms that it sums or multiplies: by a step of
        the format to which its factors may be rounded (`products`)."""
        if name not in _SUMS:
            return args
        if eps := factor_eps(name, args):
            return pytree.tree_map(lambda v: self._factor(v, eps), args)
        return pytree.tree_map(lambda v: self._moved(v, finest, lambda: True), args)

    def _moved(self, value: Any, finest: float, whole: Callable[[], bool]) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        if rounding_of(value) > finest:
            return value
        return nudge(value, self.random.getrandbits(62), self.most, whole=whole)

    def _factor(self, value: Any, eps: float) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return nudge(value, self.random.getrandbits(62), eps=eps)


def _is_whole(name: str, args: Any) -> bool:
    """Whether a whole number that the operation gives is exact: what it takes has few digits."""
    if name in _APPROXIMATED:
        return False
    if name in _POWERS and not (len(args) > 1 and isinstance(args[1], int)):
        return False
    return all(map(_is_short, pytree.tree_leaves(args)))


def _is_short(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value) or value % _SHORT == 0
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return True
    given = value.detach().double()
    return bool((~given.isfinite() | (given.remainder(_SHORT) == 0)).all())


def nudge(
    x: torch.Tensor, seed: int, most: int = 1, eps: float | None = None,
    whole: Callable[[], bool] = lambda: True,
) -> torch.Tensor:  # fmt: skip
    """x with each element moved up or down by a step of its dtype, or by as many as `most` of them. eps: the
    machine epsilon of another format whose step is meant. whole: asked whether whole numbers are exact, as
    those are that ceil, a clamp or a count gives; then they stay."""
    generator = torch.Generator().manual_seed(seed)
    up = torch.randint(0, 2, x.shape, generator=generator, dtype=torch.int8).to(x.device).bool()
    steps: Any = _AS_FAR_DOWN_AS_UP
    if most > 1:
        steps = steps + torch.randint(0, most, x.shape, generator=generator).to(x.device, x.dtype)
    with torch.no_grad():
        step = x * (steps * (eps_of(x.dtype) if eps is None else eps))
        moved = torch.where(up, x + step, x - step).to(x.dtype)
        moved = torch.where(moved.isfinite(), moved, x)  # the largest float, a mask say, stays
        integers = (x == x.round()) & (x.abs() < _EXACT_INTEGERS) & (x != 0)
        if bool(integers.any()) and whole():
            moved = torch.where(integers, x, moved)
    return x + (moved - x).detach() if x.requires_grad else moved


class OneUlp(torch.fx.Interpreter):
    """Runs a graph in eager with the result of each rounding node moved by one ulp, up or down, and so the
    terms of a sum (a convolution, a product of matrices). seed, most: as of `Step`."""

    def __init__(self, gm: torch.fx.GraphModule, seed: int, most: int = 1) -> None:
        super().__init__(gm)
        self.step = Step(seed, most)
        self.finest: dict[torch.fx.Node, float] = {}  # machine epsilon of the finest float a node hangs on
        self.hangs_on = 1.0  # the node that is run, without its own result

    def run_node(self, n: torch.fx.Node) -> Any:
        self.hangs_on = min((self.finest[i] for i in n.all_input_nodes), default=1.0)
        result = super().run_node(n)
        self.finest[n] = min(self.hangs_on, finest_of([result]))
        if n.op not in ("call_function", "call_method") or not isinstance(result, torch.Tensor):
            return result
        if self._is_argument(n, result):
            return result if self._is_exact(n) else _move_in_place(result, lambda v: self._moved(n, v))
        if result._is_view() or self._is_exact(n):
            return result
        return self._moved(n, result)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if is_higher_order(target):  # its operations are those of a graph of its own
            with Nudged(self.step.random.getrandbits(62), self.step.most):
                return super().call_function(target, args, kwargs)
        if "out" not in kwargs:
            args = self.step.terms(short_name(target), args, self.hangs_on)
        return super().call_function(target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_method(target, self.step.terms(short_name(target), args, self.hangs_on), kwargs)

    def _moved(self, n: torch.fx.Node, value: Any) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(n)
        return self.step.result(value, self.hangs_on, _out_of_place(short_name(n.target)), args)

    def _is_argument(self, n: torch.fx.Node, result: torch.Tensor) -> bool:
        """Whether a node returns its own argument, into which it writes."""
        return any(self.env.get(a) is result for a in n.all_input_nodes)

    def _is_exact(self, n: torch.fx.Node) -> bool:
        """A part of a tuple is as exact as what made the tuple."""
        name = _out_of_place(short_name(n.target))
        source = n.args[0] if n.args else None
        if name == "getitem" and isinstance(source, torch.fx.Node):
            return isinstance(self.env.get(source), torch.Tensor) or self._is_exact(source)
        return name in _EXACT


class Nudged(TorchDispatchMode):
    """Moves the result of each rounding ATen operation by one ulp, up or down, as `OneUlp` does node by node:
    for programs that there is no graph of. seed, most: as there."""

    supports_higher_order_operators = True

    def __init__(self, seed: int, most: int = 1) -> None:
        super().__init__()
        self.step = Step(seed, most)
        self.finest = WeakIdKeyDictionary()  # as of OneUlp, of the tensors that were made
        self.coarsest = 0.0  # machine epsilon of the coarsest float dtype of a result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = short_name(func)
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        hangs_on = min((1.0, *map(self._finest, _tensors((args, kwargs)))))
        given = args if func._schema.is_mutable else self.step.terms(name, args, hangs_on)
        result = func(*given, **kwargs)

        def moved(value: Any) -> Any:
            return self.step.result(value, hangs_on, _out_of_place(name), args)

        if _out_of_place(name) not in _EXACT and not func.is_view:
            in_place = func._schema.is_mutable
            move = (lambda value: _move_in_place(value, moved)) if in_place else moved
            result = pytree.tree_map(move, result)
        self._note(result, hangs_on)
        return result

    def _finest(self, tensor: torch.Tensor) -> float:
        known: float = self.finest.get(tensor, 1.0)
        return min(known, rounding_of(tensor))

    def _note(self, result: Any, hangs_on: float) -> None:
        for value in _tensors(result):
            self.finest[value] = min(hangs_on, rounding_of(value))
            if math.isfinite(rounding_of(value)):
                self.coarsest = max(self.coarsest, rounding_of(value))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]


def _move_in_place(value: Any, moved: Callable[[Any], Any]) -> Any:
    """What an operation wrote into its argument, moved there, without autograd or a mode seeing it."""
    if isinstance(value, torch.Tensor):
        with _disable_current_modes():
            value.data.copy_(moved(value.detach()))
    return value


def _out_of_place(name: str) -> str:
    """`mul` for `mul_`, which writes into its argument."""
    return name.removesuffix("_") if not name.endswith("__") else name
