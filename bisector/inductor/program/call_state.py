"""What compiled code may depend on besides the values of its tensors: the state that a call begins with, and
how it differs from that of an earlier call.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from .reach import attributes, hooks_of, reached, variables

State = dict[str, str]  # name -> what it is, in words
MOST_WORDS = 60  # characters of a value
MOST_CHANGES = 4
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def describe(model: Any, args: Any, kwargs: Any) -> State:
    """The state as it is now, before a call. model: what was compiled."""
    given = pytree.tree_leaves((args, kwargs))
    state = {
        "grad mode": str(torch.is_grad_enabled()),
        "autocast on the CPU": str(torch.is_autocast_enabled("cpu")),
        "default dtype": str(torch.get_default_dtype()),
    }
    for i, leaf in enumerate(given):
        state |= _of_value(f"argument {i}", leaf)
    state |= _shared([leaf for leaf in given if isinstance(leaf, torch.Tensor)])
    for name, owner in reached(model):
        state |= dict(_of_owner(name or "the module", owner))
    for name, value in variables(model):
        state |= _of_value(f"`{name}`", value)
    return state


def changed(before: Mapping[str, str], now: Mapping[str, str], call: int) -> str:
    """What differs, in a sentence. call: the number of the call that compiled the code, from 1."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    changes = [f"{name} ({before.get(name, 'none')} -> {now.get(name, 'none')})" for name in names]
    if not changes:
        return f"of what was looked at, nothing has changed since call {call}, which compiled it last"
    more = f" and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
    shown = ", ".join(changes[:MOST_CHANGES])
    return f"since call {call}, which compiled it last, there changed {shown}{more}"


def _of_value(name: str, value: Any) -> State:
    if isinstance(value, torch.Tensor):
        hooks = sum(map(len, hooks_of(value)))
        shape = f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
        strides = value.stride() if value.layout is torch.strided else value.layout
        found = {name: shape, f"the strides of {name}": str(strides)}
        found[f"whether {name} requires gradients"] = str(value.requires_grad)
        return found | ({f"the hooks of {name}": str(hooks)} if hooks else {})
    if isinstance(value, _PLAIN):
        return {name: repr(value)[:MOST_WORDS]}
    if type(value) in (list, dict, set):
        return {name: repr(value)[:MOST_WORDS], f"the length of {name}": str(len(value))}
    if isinstance(value, random.Random):
        return {name: f"random state {hash(value.getstate()[1]) & 0xFFFF:04x}"}
    return {name: type(value).__name__}


def _shared(tensors: list[torch.Tensor]) -> State:
    """Which arguments overlap in memory."""
    pairs = [
        f"{i} and {j}"
        for i, one in enumerate(tensors)
        for j, two in enumerate(tensors[:i])
        if _span(one) and _span(two) and max(_span(one)[0], _span(two)[0]) < min(_span(one)[1], _span(two)[1])
    ]
    return {"tensor arguments that overlap in memory": ", ".join(pairs)} if pairs else {}


def _span(tensor: torch.Tensor) -> tuple[int, ...]:
    """The first and the last byte that a tensor reaches; empty where it has no memory of its own."""
    if tensor.layout is not torch.strided or not tensor.numel() or tensor.device.type == "meta":
        return ()
    try:
        start = tensor.data_ptr()
    except RuntimeError:  # a subclass that wraps others
        return ()
    reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * tensor.element_size()


def _of_owner(name: str, owner: Any) -> Iterator[tuple[str, str]]:
    if isinstance(owner, torch.nn.Module):
        for path, module in owner.named_modules():
            where = f"{name}.{path}" if path else name
            yield f"whether {where} is in training", str(module.training)
            if hooks := sum(map(len, hooks_of(module))):
                yield f"the hooks of {where}", str(hooks)
            for key, value in attributes(module):
                yield from _of_value(f"{where}.{key}", value).items()
        for path, tensor in (*owner.named_parameters(), *owner.named_buffers()):
            yield from _of_value(f"{name}.{path}", tensor).items()
    elif isinstance(owner, torch.Tensor):
        yield from _of_value(name, owner).items()
