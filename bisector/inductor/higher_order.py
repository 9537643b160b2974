"""Operators that take functions, such as `cond`, `scan` and `flex_attention`, under a dispatch mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def is_higher_order(func: Any) -> bool:
    """Whether it is an operator that takes functions."""
    return isinstance(func, torch._ops.HigherOrderOperator)


def run_under(mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Runs such an operator with the functions that it takes under the mode. For a call from within the
    mode, which is off there."""
    own = pytree.tree_map(lambda value: _under(mode, value), (args, kwargs))
    return func(*own[0], **own[1])


def _under(mode: TorchDispatchMode, value: Any) -> Any:
    return _wrapped(mode, value) if callable(value) and not isinstance(value, torch.Tensor) else value


def _wrapped(mode: TorchDispatchMode, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def under_the_mode(*args: Any, **kwargs: Any) -> Any:
        with mode, _Decomposing():
            return function(*args, **kwargs)

    return under_the_mode


class _Decomposing(TorchDispatchMode):
    """Decomposes composite operations: within such an operator autograd, which does so elsewhere, is off."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.OpOverload):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)
