"""Two more runs in eager that a verdict needs: one in float64, one with every result moved by one ulp.

The first is the yardstick (the idea of torch._dynamo.utils.same). The second asks how much the graph
amplifies rounding: where one ulp at each node moves the output beyond tolerance, two correct programs may
differ that much (the idea of stochastic arithmetic, CADNA and Verrou).
"""

from __future__ import annotations

import ctypes
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..errors import first_line
from .higher_order import is_higher_order, run_under
from .products import CONVOLUTIONS, MATRIX_PRODUCTS, factor_eps
from .tensors import lies_as_new

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


_DIGITS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


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
    """Runs every ATen call in double precision, casts to a narrower float included.

    An op without a float64 kernel runs in float32, its result widened; `narrow` names these. finest: machine
    epsilon of the finest float dtype of the program: where that is float32 or coarser, its operations take a
    number of Python's as a float32, and that is no rounding of theirs.
    """

    supports_higher_order_operators = True

    def __init__(self, finest: float) -> None:
        super().__init__()
        self.narrow: set[str] = set()
        self.takes_float32 = finest >= torch.finfo(torch.float32).eps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            raise NoReference(f"{func} draws random numbers, which differ in float64")
        if func is torch.ops.aten.view.dtype and _is_of_floats(*args):
            raise NoReference("the graph reads the bits of a float (view with a dtype)")
        if any(widen(x) is not x for x in _written(func, args, kwargs)):
            raise NoReference(f"{func} writes into a tensor of the program's own precision")
        if self.takes_float32:
            args, kwargs = _numbers_as_float32(func, args, kwargs)
        wide_args, wide_kwargs = pytree.tree_map(widen, (args, kwargs))
        try:
            # Widened again, since a call without a dtype (torch.zeros) takes the default one.
            return pytree.tree_map(widen, func(*wide_args, **wide_kwargs))
        except (NotImplementedError, RuntimeError) as error:
            if func._schema.is_mutable:
                raise NoReference(f"{func} does not run in float64: {first_line(error)}") from error
        self.narrow.add(str(func))
        narrow_args, narrow_kwargs = pytree.tree_map(_narrowed, (args, kwargs))
        return pytree.tree_map(widen, func(*narrow_args, **narrow_kwargs))


def _numbers_as_float32(func: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with operands that are numbers of Python's as a float32 holds them. Other numbers, such
    as a scale factor or a probability, are no operands."""
    operands = [any(kind in str(a.type) for kind in ("Tensor", "number")) for a in func._schema.arguments]
    names = {a.name for a, is_operand in zip(func._schema.arguments, operands, strict=True) if is_operand}
    own = [_as_float32(v) if is_operand else v for v, is_operand in zip(args, operands, strict=False)]
    return own, {name: _as_float32(v) if name in names else v for name, v in kwargs.items()}


def _as_float32(value: Any) -> Any:
    narrow = ctypes.c_float(value).value if isinstance(value, float) else math.inf
    return narrow if math.isfinite(narrow) else value


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that the call writes into; a widened copy of one would take the write with it."""
    found = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found += pytree.tree_leaves(value)
    return found


def _is_of_floats(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether a view as another dtype reads or makes floats; integers are as wide as the program's own."""
    return any(one.is_floating_point or one.is_complex for one in (tensor.dtype, dtype))


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Attention ops are tagged as random for their dropout, which is off where its probability is 0."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            return bool(args[i] if i < len(args) else kwargs.get("dropout_p", argument.default_value))
    return func is not torch.ops.aten._fused_sdp_choice.default


def _narrowed(value: Any) -> Any:
    back = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return value.to(back[value.dtype]) if isinstance(value, torch.Tensor) and value.dtype in back else value


# Results that are exact whatever the inputs: a value moved after one of these is no rounding error.
_EXACT = frozenset({
    "_to_copy", "abs", "absolute", "amax", "amin", "arange", "argmax", "argmin", "bfloat16", "broadcast_to",
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
LINEAR = (CONVOLUTIONS | MATRIX_PRODUCTS | {"cumsum", "mean", "sum"}) - {_ATTENTION}
_SUMS = LINEAR | {
    _ATTENTION, "cumprod", "dist", "index_add", "linalg_vector_norm", "nanmean", "nansum", "norm", "prod",
    "scatter_add", "std", "std_mean", "trace", "var", "var_mean", "vector_norm",
}  # fmt: skip


class OneUlp(torch.fx.Interpreter):
    """Runs a graph in eager with the result of each rounding node moved by one ulp, up or down.

    The terms of a sum (a convolution, a product of matrices) are moved as well, by a step of the format to
    which its factors may be rounded (`products`). Only values of the finest
    float dtype in the graph are moved: an ulp of a coarser one (a cast to float16 in a float32 program) is
    no rounding error of the program but a step it takes on purpose. most: ulps that a value is moved by.
    """

    def __init__(self, gm: torch.fx.GraphModule, seed: int, finest: float, most: int = 1) -> None:
        super().__init__(gm)
        self.random = random.Random(seed)
        self.finest = finest
        self.most = most

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op not in ("call_function", "call_method") or not isinstance(result, torch.Tensor):
            return result
        if self._is_argument(n, result):
            return result if self._is_exact(n) else _move_in_place(result, self._moved)
        if result._is_view() or self._is_exact(n):
            return result
        return self._moved(result)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if "out" not in kwargs:
            args = self._terms_moved(short_name(target), args)
        return super().call_function(target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_method(target, self._terms_moved(short_name(target), args), kwargs)

    def _moved(self, value: Any) -> Any:
        return _moved(value, self.finest, self.random, self.most)

    def _terms_moved(self, name: str, args: Any) -> Any:
        return _terms_moved(name, args, self._moved, self.random)

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
    for programs that there is no graph of. finest, most: as there."""

    supports_higher_order_operators = True

    def __init__(self, seed: int, finest: float, most: int = 1) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.finest = finest
        self.most = most
        self.coarsest = 0.0  # machine epsilon of the coarsest float dtype of a result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = short_name(func)
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        if not func._schema.is_mutable:
            args = _terms_moved(name, args, self._moved, self.random)
        result = func(*args, **kwargs)
        for value in pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor) and math.isfinite(rounding_of(value)):
                self.coarsest = max(self.coarsest, rounding_of(value))
        if _out_of_place(name) in _EXACT or func.is_view:
            return result
        if func._schema.is_mutable:
            return pytree.tree_map(lambda value: _move_in_place(value, self._moved), result)
        return pytree.tree_map(self._moved, result)

    def _moved(self, value: Any) -> Any:
        return _moved(value, self.finest, self.random, self.most)


def _moved(value: Any, finest: float, draws: random.Random, most: int) -> Any:
    """A float tensor of the finest dtype moved by an ulp at each element, or by as many as `most`; anything
    else as it is."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    return value if rounding_of(value) > finest else nudge(value, draws.getrandbits(62), most)


def _terms_moved(name: str, args: Any, moved: Callable[[Any], Any], draws: random.Random) -> Any:
    """The arguments of an operation, moved where they are terms that it sums or multiplies."""
    if name not in _SUMS:
        return args
    eps = factor_eps(name, args)
    if eps:
        return pytree.tree_map(lambda v: _factor_moved(v, draws, eps), args)
    return pytree.tree_map(moved, args)


def _factor_moved(value: Any, draws: random.Random, eps: float) -> Any:
    return nudge(value, draws.getrandbits(62), eps=eps) if isinstance(value, torch.Tensor) else value


def _move_in_place(value: Any, moved: Callable[[Any], Any]) -> Any:
    """What an operation wrote into its argument, moved there, without autograd or a mode seeing it."""
    if isinstance(value, torch.Tensor):
        with _disable_current_modes():
            value.data.copy_(moved(value.detach()))
    return value


def short_name(target: Any) -> str:
    """`mul` for torch.mul, "mul", operator.mul and aten.mul.Tensor alike."""
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _out_of_place(name: str) -> str:
    """`mul` for `mul_`, which writes into its argument."""
    return name.removesuffix("_") if not name.endswith("__") else name


def rounding_of(value: torch.Tensor) -> float:
    """The machine epsilon of a float tensor, infinite for what has no arithmetic of floats."""
    if not value.is_floating_point() or value.dtype not in (*_WIDE, torch.float64):
        return float("inf")
    return torch.finfo(value.dtype).eps


def finest_of(values: Iterable[Any]) -> float:
    """The machine epsilon of the finest float dtype among the tensors of these values; 1 where there is
    none."""
    leaves = (leaf for value in values for leaf in pytree.tree_leaves(value))
    return min((1.0, *(rounding_of(v) for v in leaves if isinstance(v, torch.Tensor))))


# How a program writes a cast, as torch's function or a tensor's method.
_CASTS = frozenset({
    "to", "type", "type_as", "half", "bfloat16", "float", "double", "_to_copy", "convert_element_type",
})


class _Rounded(torch.autograd.Function):
    """The value as a narrower dtype holds it, in double precision, and its gradient alike."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, narrow: torch.dtype) -> torch.Tensor:
        ctx.narrow = narrow
        return _as_narrow(value, narrow)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _as_narrow(gradient, ctx.narrow), None


def _as_narrow(value: torch.Tensor, narrow: torch.dtype) -> torch.Tensor:
    with _disable_current_modes():
        return value.to(narrow).to(value.dtype)


class Obeying(torch.fx.Interpreter):
    """Runs a graph under `Float64` and rounds where the program itself casts to a narrower dtype.

    casts: the nodes that do, with the dtype (`narrowing_casts`). What autocast or a composite casts on its
    own is no part of what the program says.
    """

    def __init__(self, gm: torch.fx.GraphModule, casts: Mapping[str, torch.dtype]) -> None:
        super().__init__(gm)
        self.casts = casts

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.name not in self.casts or not isinstance(result, torch.Tensor):
            return result
        return _Rounded.apply(result, self.casts[n.name])


class LeavingOut(torch.fx.Interpreter):
    """Runs a graph in eager without casts that it has: their nodes give what they are given. casts: as of
    `Obeying`."""

    def __init__(self, gm: torch.fx.GraphModule, casts: Mapping[str, torch.dtype]) -> None:
        super().__init__(gm)
        self.casts = casts

    def run_node(self, n: torch.fx.Node) -> Any:
        return self.env[n.all_input_nodes[0]] if n.name in self.casts else super().run_node(n)


def narrowing_casts(gm: torch.fx.GraphModule, dtypes: Mapping[str, torch.dtype]) -> dict[str, torch.dtype]:
    """The casts that the program writes to a float of fewer digits. dtypes: of each node's result."""
    found = {}
    for node in gm.graph.nodes:
        inputs = node.all_input_nodes
        if not inputs or not node.op.startswith("call") or short_name(node.target) not in _CASTS:
            continue
        before, after = dtypes.get(inputs[0].name), dtypes.get(node.name)
        if before in _DIGITS and after in _DIGITS and torch.finfo(after).eps > torch.finfo(before).eps:
            found[node.name] = after
    return found


EXACT_INTEGERS = 1 << 20  # larger floats are integers because they have no digits left


# Times the machine epsilon: less than a step where the mantissa is near 1, more where it is near 2; rounded, one
# step of either. A larger step upwards than downwards adds up in a product of many factors.
AS_FAR_DOWN_AS_UP = 0.75


def nudge(x: torch.Tensor, seed: int, most: int = 1, eps: Any = None) -> torch.Tensor:
    """x with each element moved up or down by a step of its dtype, or by as many as `most` of them. eps: the
    machine epsilon of another format whose step is meant."""
    generator = torch.Generator().manual_seed(seed)
    up = torch.randint(0, 2, x.shape, generator=generator, dtype=torch.int8).to(x.device).bool()
    steps: Any = AS_FAR_DOWN_AS_UP
    if most > 1:
        steps = steps + torch.randint(0, most, x.shape, generator=generator).to(x.device, x.dtype)
    with torch.no_grad():
        step = x * (steps * (torch.finfo(x.dtype).eps if eps is None else eps))
        moved = torch.where(up, x + step, x - step).to(x.dtype)
        moved = torch.where(moved.isfinite(), moved, x)  # the largest float, a mask say, stays
        # What ceil, floor, clamp or a count give is exact, and no program rounds it otherwise.
        moved = torch.where((x == x.round()) & (x.abs() < EXACT_INTEGERS), x, moved)
    return x + (moved - x).detach() if x.requires_grad else moved


def copied(value: Any) -> Any:
    """In the place of `widen`, for the same construction in the program's own dtype."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def widened(args: Sequence[Any], convert: Callable[[Any], Any] = widen) -> list[Any]:
    """Inputs of a float64 run. requires_grad is kept, and so is how they lie in memory, where that is not as
    a new tensor does, and which of them share it. convert: makes a value of another dtype. Raises NoReference
    where values of several dtypes share memory."""
    shared: dict[int, torch.Tensor] = {}  # the address of a memory -> all of it in double precision
    counts = Counter(_address(a) for a in args if isinstance(a, torch.Tensor))
    out = []
    for a in args:
        wide = convert(a)
        if wide is not a and isinstance(a, torch.Tensor) and (counts[_address(a)] > 1 or not lies_as_new(a)):
            wide = _view_of_wide(a, shared, convert)
        if isinstance(a, torch.Tensor) and a.requires_grad:
            wide = wide.detach().requires_grad_()
        out.append(wide)
    dtypes: dict[int, set[torch.dtype]] = {}
    for a in args:
        if isinstance(a, torch.Tensor) and a.layout is torch.strided and a.numel():
            dtypes.setdefault(_address(a), set()).add(a.dtype)
    if any(len(found) > 1 for found in dtypes.values()):
        raise NoReference("inputs of several dtypes lie in the same memory")
    return out


def _address(tensor: torch.Tensor) -> int:
    """Of the tensor's memory; another number for what has no memory of its own to look at."""
    if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return -id(tensor)
    return tensor.untyped_storage().data_ptr() or -id(tensor)


def _view_of_wide(
    tensor: torch.Tensor, shared: dict[int, torch.Tensor], convert: Callable[[Any], Any]
) -> torch.Tensor:
    address = _address(tensor)
    if address not in shared:
        storage = tensor.untyped_storage()
        with _disable_current_modes():  # `Float64` would take the bytes for those of doubles
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            whole.set_(storage, 0, (storage.nbytes() // tensor.element_size(),), (1,))
            shared[address] = convert(whole)
    return shared[address].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
