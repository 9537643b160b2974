"""Which ATen calls a piece of a program makes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Listed(TorchDispatchMode):
    """Notes the ATen calls that are made under it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))

    @property
    def name(self) -> str:
        """The first call that computes (`aten.mul`), else the first one; empty where there is none."""
        computing = [c for c in self.calls if not _is_movement(c)]
        first: Any = next((c.overloadpacket for c in (*computing, *self.calls)), "")
        return _NAMES.get(first, str(first))

    @property
    def elementwise(self) -> bool:
        """Whether each element of the result comes from its own inputs alone."""
        return all(torch.Tag.pointwise in c.tags or c.overloadpacket in _STAYING for c in self.calls)

    @property
    def basic(self) -> bool:
        """Whether IEEE 754 says what each element is: nothing approximated, no sum of many terms."""
        return all(c.overloadpacket in _BASIC or _is_movement(c) for c in self.calls)


def _is_movement(func: Any) -> bool:
    """Views, new memory, and copies to another place or layout."""
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
    return aliases or func.overloadpacket in _COPIES


_aten = torch.ops.aten
# Each element stays at its place.
_STAYING = (_aten._to_copy, _aten.clone, _aten.copy_, _aten.detach, _aten.empty, _aten.empty_like)
_COPIES = (*_STAYING, _aten.cat, _aten.constant_pad_nd, _aten.flip, _aten.index_select, _aten.roll)
_BASIC = (
    _aten.abs, _aten.add, _aten.ceil, _aten.clamp, _aten.clamp_max, _aten.clamp_min, _aten.div, _aten.floor,
    _aten.maximum, _aten.minimum, _aten.mul, _aten.neg, _aten.reciprocal, _aten.relu, _aten.round, _aten.rsub,
    _aten.sign, _aten.sqrt, _aten.sub, _aten.trunc, _aten.where,
)  # fmt: skip
_NAMES = {_aten._to_copy: "prims.convert_element_type"}  # as Inductor names a cast
