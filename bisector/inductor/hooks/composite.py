"""The part of `decomp` for ops that a Python kernel takes apart before the table is asked.

Replaces the entries of `OpOverload.py_kernels` (torch/_ops.py) for the keys CompositeImplicitAutograd and
Autograd, which torch/_decomp registers with `py_impl` and AOTAutograd's Python dispatcher calls. Exercised
on torch 2.13. Eager runs the C++ kernel of the same op there; denied, so does the trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from ...core import kinds
from ..control import current
from .patching import require

_Allowed = Callable[[OpOverload], bool]
_Kernel = Callable[..., Any]


def install(is_choice: _Allowed, allowed: _Allowed) -> None:
    require(torch.ops.aten.add.Tensor, "_op_dk", "_dispatch_cache", "py_kernels", "decompose")
    for op in _registered():
        if not is_choice(op):
            continue
        for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
            if key in op.py_kernels:
                op.py_kernels[key] = _asking(op, key, op.py_kernels[key], allowed)
        op._dispatch_cache.clear()


def _registered() -> Iterator[OpOverload]:
    for name in torch.ops.aten:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if op.py_kernels:
                yield op


def _asking(op: OpOverload, key: DispatchKey, kernel: _Kernel, allowed: _Allowed) -> _Kernel:
    eager = _eager_key(op)

    @functools.wraps(kernel)  # whoever looks for the formula finds torch's
    def call(*args: Any, **kwargs: Any) -> Any:
        if current(kinds.DECOMP.name) is None or allowed(op):
            return kernel(*args, **kwargs)
        if eager is DispatchKey.Autograd and key is DispatchKey.CompositeImplicitAutograd:
            return NotImplemented  # `OpOverload.decompose` asks: the op stays
        return op._op_dk(eager, *args, **kwargs)

    return call


def _eager_key(op: OpOverload) -> DispatchKey:
    """Where eager's kernel is: the C++ composite, or the autograd kernel in front of the device's."""
    composite = DispatchKey.CompositeImplicitAutograd
    has_composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)
    return composite if has_composite else DispatchKey.Autograd
