"""Operators of the program's own that do other than they declare: they write into an argument which their
schema says they only read, or give a tensor in another layout than their fake kernel describes. One of
`torch.library.custom_op` may do both.

A compiler may run what reads such an argument before the operator or after it, and reads a result as it was
described, so that two right programs give different values, or one stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensorMode

from . import tensors

_OF_TORCH = frozenset({"aten", "prims", "prim", "higher_order"})
WRITES = (
    "writes into `{}`, which its schema says it only reads: declare the write (`mutates_args` of "
    "torch.library.custom_op)"
)
GIVES = "gives {}, which its fake kernel describes as {}: mend that kernel (`register_fake`)"
_Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]


def undeclared_by(target: Any, args: Any, kwargs: Any, run: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, and in words what it does undeclared and what to change; "" where nothing."""
    op = _own_operator(target)
    if op is None:
        return run(), ""
    read = dict(_read(op, args, kwargs))
    before = {name: tensors.digest([value]) for name, value in read.items()}
    described = _described(op, args, kwargs)
    result = run()
    written = [WRITES.format(name) for name, value in read.items() if tensors.digest([value]) != before[name]]
    laid_out = zip(_layouts(result), described, strict=False)
    other = [GIVES.format(_shown(real), _shown(fake)) for real, fake in laid_out if real != fake]
    said = next(iter((*written, *other)), "")
    return result, f"the operator {op.overloadpacket} {said}" if said else ""


class AsDeclared(torch.fx.Interpreter):
    """Runs a graph in eager in which such operators do as they declare: what they write is lost, and what
    they give is put into the layout that is described, where it has the described shape."""

    def run_node(self, n: torch.fx.Node) -> Any:
        op = _own_operator(n.target) if n.op == "call_function" else None
        if op is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        described = iter(_described(op, args, kwargs))
        copies = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        result = self.call_function(n.target, *copies)
        return pytree.tree_map_only(torch.Tensor, lambda t: _laid_out(t, next(described, None)), result)


def _own_operator(target: Any) -> OpOverload | None:
    """The operator where it is none of torch's; of several overloads none is taken."""
    if isinstance(target, OpOverloadPacket) and len(names := target.overloads()) == 1:
        target = getattr(target, names[0])
    is_own = isinstance(target, OpOverload) and target.namespace not in _OF_TORCH
    return target if is_own else None


def _read(op: OpOverload, args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    arguments = op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    for argument in arguments:
        value = given.get(argument.name)
        if isinstance(value, torch.Tensor) and not (argument.alias_info and argument.alias_info.is_write):
            yield argument.name, value


def _described(op: OpOverload, args: Any, kwargs: Any) -> list[_Layout]:
    """The layouts that the fake kernel describes; none where it cannot, as of a size that hangs on values."""
    mode = FakeTensorMode()
    try:
        fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        with mode:
            return _layouts(op(*fakes[0], **fakes[1]))
    except Exception:  # noqa: BLE001 - a fake kernel is the user's, and the compiler will say what it raises
        return []


def _layouts(result: Any) -> list[_Layout]:
    """dtype, shape and strides of each tensor. The stride of a dimension of length 1 means nothing."""
    found = []
    for tensor in pytree.tree_leaves(result):
        if isinstance(tensor, torch.Tensor):
            shape = tuple(tensor.shape)
            strides = tuple(s if n > 1 else 0 for n, s in zip(shape, tensor.stride(), strict=True))
            found.append((tensor.dtype, shape, strides))
    return found


def _shown(layout: _Layout) -> str:
    dtype, shape, strides = layout
    return f"{tensors.dtype_name(dtype)}{list(shape)} with strides {list(strides)}"


def _laid_out(tensor: torch.Tensor, layout: _Layout | None) -> torch.Tensor:
    if layout is None or tuple(tensor.shape) != layout[1] or _layouts(tensor) == [layout]:
        return tensor
    dtype, shape, strides = layout
    return torch.empty_strided(shape, strides, dtype=dtype, device=tensor.device).copy_(tensor)
