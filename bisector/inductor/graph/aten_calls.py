"""The ATen calls that a program makes, as plain data that two programs can be compared by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

AtenCall = tuple[str, tuple[tuple[str, Any], ...]]  # the overload, and each argument of its schema


class AtenCalls(TorchDispatchMode):
    """Lists the calls made while it is active, below autograd. given: tensors that both programs are given.

    A tensor is told by where it comes from: its place among those given, or the call that made it.
    """

    def __init__(self, given: Iterable[Any]) -> None:
        super().__init__()
        self.calls: list[AtenCall] = []
        self._labels: dict[int, str] = {}
        self._alive: list[torch.Tensor] = []  # an identity is one tensor's only as long as it lives
        for position, value in enumerate(given):
            self._tell(value, f"given {position}")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        told = self._arguments(func, args, kwargs or {})
        made = func(*args, **(kwargs or {}))
        self.calls.append((str(func), told))
        for position, value in enumerate(pytree.tree_leaves(made)):
            self._tell(value, f"call {len(self.calls)}, output {position}")
        return made

    def _tell(self, value: Any, label: str) -> None:
        if isinstance(value, torch.Tensor):
            self._alive.append(value)
            self._labels[id(value)] = label

    def _arguments(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Every argument of the schema by its name, those that were left out by their defaults."""
        schema = func._schema.arguments
        values = {a.name: a.default_value for a in schema if a.has_default_value()}
        values.update(zip((a.name for a in schema), args, strict=False))
        values.update(kwargs)
        return tuple((name, self._plain(value)) for name, value in sorted(values.items()))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._labels:
                self._tell(value, f"found {len(self._labels)}")
            return self._labels[id(value)]
        if isinstance(value, (list, tuple)):
            return tuple(self._plain(item) for item in value)
        return type(value).__name__, str(value)
