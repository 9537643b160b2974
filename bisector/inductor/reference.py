"""Eager in float64, the yardstick of two runs (the idea of torch._dynamo.utils.same), with the casts of the
program or without them.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..errors import first_line
from .higher_order import is_higher_order, run_under
from .rounding import FLOAT_DTYPES, eps_of
from .tensors import lies_as_new

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
    """Runs every ATen call in double precision, casts to a narrower float included.

    An op without a float64 kernel runs in float32, its result widened; `narrow` names these. finest: machine
    epsilon of the finest float dtype of the program: where that is float32 or coarser, its operations take a
    number of Python's as a float32, and that is no rounding of theirs.
    """

    supports_higher_order_operators = True

    def __init__(self, finest: float) -> None:
        super().__init__()
        self.narrow: set[str] = set()
        self.takes_float32 = finest >= eps_of(torch.float32)

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
            made = func(*wide_args, **wide_kwargs)
            if isinstance(made, torch.Tensor) and made.dtype in _WIDE and _takes_default(func, wide_kwargs):
                made = func(*wide_args, **{**wide_kwargs, "dtype": _WIDE[made.dtype]})
            return pytree.tree_map(widen, made)  # again, since some take no dtype, and give one of their own
        except (NotImplementedError, RuntimeError) as error:
            if func._schema.is_mutable:
                raise NoReference(f"{func} does not run in float64: {first_line(error)}") from error
        self.narrow.add(str(func))
        narrow_args, narrow_kwargs = pytree.tree_map(_narrowed, (args, kwargs))
        return pytree.tree_map(widen, func(*narrow_args, **narrow_kwargs))


def _takes_default(func: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call without a dtype (torch.arange) makes a tensor of the default one."""
    return any(a.name == "dtype" for a in func._schema.arguments) and kwargs.get("dtype") is None


def _numbers_as_float32(func: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with operands that are numbers of Python's as a float32 holds them. Other numbers, such
    as a scale factor or a probability, are no operands; nor are those that a grid is made of, such as the
    step of `arange`, with which ATen computes in double precision."""
    types = [str(argument.type) for argument in func._schema.arguments]
    if not any("Tensor" in one for one in types) and types.count("number") > 1:
        return args, kwargs
    operands = [any(kind in one for kind in ("Tensor", "number")) for one in types]
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


def short_name(target: Any) -> str:
    """`mul` for torch.mul, "mul", operator.mul and aten.mul.Tensor."""
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    return target if isinstance(target, str) else getattr(target, "__name__", "")


# How a program writes a cast, as torch's function or a tensor's method.
_CASTS = frozenset({
    "to", "type", "type_as", "half", "bfloat16", "float", "double", "_to_copy", "convert_element_type",
})


class _Rounded(torch.autograd.Function):
    """The value as a narrower dtype holds it, in double precision, and its gradient too."""

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
        if before is None or after is None or not {before, after} <= set(FLOAT_DTYPES):
            continue
        if eps_of(after) > eps_of(before):
            found[node.name] = after
    return found


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
