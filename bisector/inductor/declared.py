"""Operators of the program's own that do other than they declare: they write into an argument which their
schema says they only read, or give a tensor in another layout than their fake kernel describes. One of
`torch.library.custom_op` may do both.

A compiler may run what reads such an argument before the operator or after it, and reads a result as it was
described, so that two right programs give different values, or one stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.model import OutputMeasurement
from . import tensors
from .equality import digest
from .higher_order import is_higher_order, run_under

_OF_TORCH = frozenset({"aten", "prims", "prim", "higher_order"})
WRITES = (
    "writes into `{}`, which its schema says it only reads: declare the write (`mutates_args` of "
    "torch.library.custom_op)"
)
GIVES = "gives {}, which its fake kernel describes as {}: mend that kernel (`register_fake`)"
_Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]


class Undeclared(TorchDispatchMode):
    """Looks at each call of such an operator, wherever it is made. violation: what the first one does that
    it does not declare and what to change; empty where none does."""

    supports_higher_order_operators = True
    violation = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_higher_order(func):
            return run_under(self, func, args, kwargs or {})
        run = partial(func, *args, **(kwargs or {}))
        if self.violation or not _is_own(func):
            return run()
        result, self.violation = _looked_at(func, args, kwargs or {}, run)
        return result


class AsDeclared(TorchDispatchMode):
    """Such operators do as they declare: what they write is lost, and what they give is put into the layout
    that is described, where it has the described shape."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        if not _is_own(func):
            return func(*args, **kwargs)
        described = iter(_described(func, args, kwargs))
        copies = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        result = func(*copies[0], **copies[1])
        return pytree.tree_map_only(torch.Tensor, lambda t: _laid_out(t, next(described, None)), result)


def is_changed(o: OutputMeasurement) -> bool:
    """Whether an output is another one where operators do as they declare."""
    return bool(o.n_diff or o.dtype_compiled or o.shape_compiled is not None or o.stride_compiled)


def _looked_at(op: OpOverload, args: Any, kwargs: Any, run: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, and in words what it does undeclared and what to change; "" where nothing."""
    read = dict(_read(op, args, kwargs))
    before = {name: digest([value]) for name, value in read.items()}
    described = _described(op, args, kwargs)
    result = run()
    written = [WRITES.format(name) for name, value in read.items() if digest([value]) != before[name]]
    laid_out = zip(_layouts(result), described, strict=False)
    other = [GIVES.format(_shown(real), _shown(fake)) for real, fake in laid_out if real != fake]
    violation = next(iter((*written, *other)), "")
    return result, f"the operator {op.overloadpacket} {violation}" if violation else ""


def _is_own(func: Any) -> bool:
    """Whether an operator is none of torch's."""
    return isinstance(func, OpOverload) and func.namespace not in _OF_TORCH


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
