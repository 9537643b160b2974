"""Which ATen ops a piece of a program dispatches."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchedOps(TorchDispatchMode):
    """Notes the ATen calls that are made under it, but for those within a higher-order operator."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, torch._ops.OpOverload):
            self.calls.append(func)
        return func(*args, **(kwargs or {}))

    @property
    def name(self) -> str:
        """The first call that computes (`aten.mul`), else the first one; empty where there is none."""
        computing = [c for c in self.calls if not _is_movement(c)]
        first: Any = next((c.overloadpacket for c in (*computing, *self.calls)), "")
        return _NAMES.get(first, str(first))

    @property
    def names(self) -> tuple[str, ...]:
        """The calls, a cast by Inductor's name; without the views that a composite makes for itself."""
        own = [c for c in self.calls if not is_silent(c)]
        kept = [c for c in own if not _is_view(c)] or own[:1] if len(own) > 1 else own
        return tuple(_NAMES.get(c.overloadpacket, str(c.overloadpacket)) for c in kept)

    @property
    def computing(self) -> int:
        """How many of the calls compute: what a view or a constant holds is known without running it."""
        return sum(not _is_view(c) and not _is_constant(c) for c in self.calls if not is_silent(c))

    @property
    def elementwise(self) -> bool:
        """Whether each element of the result comes from its own inputs alone."""
        return all(torch.Tag.pointwise in c.tags or c.overloadpacket in _STAYING for c in self.calls)

    @property
    def basic(self) -> bool:
        """Whether IEEE 754 says what each element is: nothing approximated, no sum of many terms."""
        return all(c.overloadpacket in _BASIC or _is_movement(c) for c in self.calls)


def is_silent(func: Any) -> bool:
    """Whether it is autograd's own bookkeeping: the result is the argument."""
    return func in _SILENT


def _is_movement(func: Any) -> bool:
    """Views, new memory, and copies to another place or layout."""
    return _is_view(func) or func.overloadpacket in _COPIES


def _is_view(func: Any) -> bool:
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
    return aliases or func.overloadpacket is _aten._unsafe_view


def _is_constant(func: Any) -> bool:
    """Made of no tensor, or of nothing but the shape of one."""
    takes = any(isinstance(a.type, torch.TensorType) for a in func._schema.arguments)
    name = func.overloadpacket.__name__
    return not takes or name in _LIKE or name.startswith("new_")


_aten = torch.ops.aten
# Each element stays at its place.
_STAYING = (_aten._to_copy, _aten.clone, _aten.copy_, _aten.detach, _aten.empty, _aten.empty_like)
_COPIES = (*_STAYING, _aten.cat, _aten.constant_pad_nd, _aten.flip, _aten.index_select, _aten.roll)
_BASIC = (
    _aten.abs, _aten.add, _aten.ceil, _aten.clamp, _aten.clamp_max, _aten.clamp_min, _aten.div, _aten.floor,
    _aten.maximum, _aten.minimum, _aten.mul, _aten.neg, _aten.reciprocal, _aten.relu, _aten.round, _aten.rsub,
    _aten.sign, _aten.sqrt, _aten.sub, _aten.trunc, _aten.where,
)  # fmt: skip
_LIKE = ("empty_like", "full_like", "ones_like", "zeros_like")
# The last is how a tensor without values is asked for its device.
_SILENT = (
    _aten.detach.default, _aten.alias.default, _aten.lift_fresh.default, torch.ops.prim.device.default,
)  # fmt: skip
_NAMES = {_aten._to_copy: "prims.convert_element_type"}  # as Inductor names a cast
