"""Operations whose result torch leaves undefined for the values that they are given.

Two correct programs may give anything there: a float that does not fit is converted as the processor likes, a
shift by more bits than there are too, memory holds what was in it, and of equal keys any may come first
(torch's documentation of `Tensor.to`, `bitwise_left_shift`, `empty`, `scatter_`, `index_put_`, `sort`,
`topk`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .higher_order import is_higher_order, run_under

_aten = torch.ops.aten
MOST = 1 << 24  # elements that are looked through; larger tensors are not checked


class UndefinedCalls(TorchDispatchMode):
    """Keeps why the first such call made under it is undefined."""

    supports_higher_order_operators = True
    reason: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        result = func(*args, **kwargs)
        ask = _ASKED.get(packet_of(func))
        if self.reason is None and ask is not None:
            with _disable_current_modes():
                self.reason = ask(func, args, kwargs, result)
        return result


class ChangedCalls(TorchDispatchMode):
    """Puts other values where the result of a call is undefined.

    turn: which of the OTHERS. elsewhere: whether there was an undefined call of which the elements are not
    known.
    """

    supports_higher_order_operators = True

    def __init__(self, turn: int) -> None:
        super().__init__()
        self.turn = turn
        self.elsewhere = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        result = func(*args, **kwargs)
        packet = packet_of(func)
        where, ask = _WHERE.get(packet), _ASKED.get(packet)
        with _disable_current_modes(), torch.no_grad():
            mask = where(func, args, kwargs, result) if where is not None else None
            if mask is not None:
                result.masked_fill_(mask.expand(result.shape), _other(result.dtype, self.turn))
            elif where is None and ask is not None and ask(func, args, kwargs, result) is not None:
                self.elsewhere = True
        return result


def packet_of(func: Any) -> Any:
    """The operator of an overload; None for a higher-order one, which has no overloads."""
    return getattr(func, "overloadpacket", None)


OTHERS = 3  # values that are put in the place of an undefined one, one after the other


def _other(dtype: torch.dtype, turn: int) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return (0.0, 1e3, float("nan"))[turn]
    if dtype is torch.bool:
        return bool(turn % 2)
    return (0, torch.iinfo(dtype).max, torch.iinfo(dtype).min)[turn]


def makes_memory(func: Any) -> bool:
    """Whether what the call returns holds whatever was in memory."""
    return _ASKED.get(packet_of(func)) is _uninitialised


def _unfit(func: Any, args: Any, kwargs: Any, result: Any) -> torch.Tensor | None:
    """Where a cast of a float does not fit; None where all do."""
    value = args[1] if func.overloadpacket is _aten.copy_ else args[0]
    if not _looked_through(value) or not value.is_floating_point() or not isinstance(result, torch.Tensor):
        return None
    if result.dtype is torch.bool or result.is_floating_point() or result.is_complex():
        return None
    info, wide = torch.iinfo(result.dtype), value.detach().double()
    outside = ~((wide > info.min - 1.0) & (wide < info.max + 1.0))
    return outside if bool(outside.any()) else None


def _cast(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    outside = _unfit(func, args, kwargs, result)
    if outside is None:
        return None
    value = args[1] if func.overloadpacket is _aten.copy_ else args[0]
    worst = float(value.detach()[outside].reshape(-1)[0])
    return f"a cast of {worst:.6g} to {_name(result)}"


def _too_far(func: Any, args: Any, kwargs: Any, result: Any) -> torch.Tensor | None:
    """Where a shift is by more bits than there are, or by less than none; None where none is."""
    value, by = args[0], args[1]
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        return None
    bits, amounts = torch.iinfo(result.dtype).bits, torch.as_tensor(by)
    if not _looked_through(amounts) or amounts.is_floating_point():
        return None
    outside = (amounts < 0) | (amounts >= bits)
    return outside if bool(outside.any()) else None


def _shift(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    outside = _too_far(func, args, kwargs, result)
    if outside is None:
        return None
    return f"a shift of {_name(result)} by {int(torch.as_tensor(args[1])[outside].reshape(-1)[0])} bits"


def _everywhere(func: Any, args: Any, kwargs: Any, result: Any) -> torch.Tensor | None:
    return torch.ones((), dtype=torch.bool, device=result.device) if result.numel() else None


def _uninitialised(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    return "memory that nothing was written to" if result.numel() else None


def _scattered(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    dim, index = args[1], args[2]
    if not _looked_through(index) or index.dim() == 0:
        return None
    ordered = index.sort(dim).values
    twice = ordered.narrow(dim, 1, ordered.shape[dim] - 1) == ordered.narrow(dim, 0, ordered.shape[dim] - 1)
    return "a write of several values to one place" if bool(twice.any()) else None


def _put(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    indices = args[1]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    integers = [i for i in indices if isinstance(i, torch.Tensor) and i.dtype is not torch.bool]
    if accumulate or len(integers) != len([i for i in indices if i is not None]):
        return None
    if not integers or not all(map(_looked_through, integers)):
        return None
    stacked = torch.stack([i.reshape(-1) for i in torch.broadcast_tensors(*integers)], 1)
    if len(stacked.unique(dim=0)) == len(stacked):
        return None
    return "a write of several values to one place"


def _tied(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    value = args[0]
    stable = kwargs.get("stable") or (func is _aten.sort.stable and len(args) > 1 and args[1] is True)
    if stable or not _looked_through(value) or value.dim() == 0:
        return None
    dim = next((a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)), -1)
    if func.overloadpacket is _aten.topk:
        dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    dim = kwargs.get("dim", dim)
    ordered = value.detach().sort(dim).values
    length = ordered.shape[dim] - 1
    tied = ordered.narrow(dim, 1, length) == ordered.narrow(dim, 0, length) if length > 0 else ordered[:0]
    return "an order of equal elements" if bool(tied.any()) else None


def _looked_through(value: Any) -> bool:
    strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return strided and 0 < value.numel() <= MOST


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


_Ask = Callable[[Any, Any, Any, Any], "str | None"]
_ASKED: dict[Any, _Ask] = {
    _aten._to_copy: _cast, _aten.copy_: _cast,
    _aten.bitwise_left_shift: _shift, _aten.bitwise_right_shift: _shift,
    _aten.__lshift__: _shift, _aten.__rshift__: _shift,
    _aten.__ilshift__: _shift, _aten.__irshift__: _shift,
    _aten.empty: _uninitialised, _aten.empty_like: _uninitialised, _aten.empty_strided: _uninitialised,
    _aten.new_empty: _uninitialised, _aten.new_empty_strided: _uninitialised,
    _aten.scatter: _scattered, _aten.scatter_: _scattered,
    _aten.index_copy: _scattered, _aten.index_copy_: _scattered,
    _aten.index_put: _put, _aten.index_put_: _put, _aten._index_put_impl_: _put,
    _aten.sort: _tied, _aten.topk: _tied, _aten.argsort: _tied,
}  # fmt: skip
_Where = Callable[[Any, Any, Any, Any], "torch.Tensor | None"]  # elements of the result
_OF_REASON: dict[_Ask, _Where] = {_cast: _unfit, _shift: _too_far, _uninitialised: _everywhere}
_WHERE = {op: _OF_REASON[ask] for op, ask in _ASKED.items() if ask in _OF_REASON}
