"""What one call of something compiled gives: what it returns, what it leaves in its arguments and in what it
reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import forward_ad

from ..equality import digest
from ..run_values import Unseen, Values
from .comparable import Named, leaves, parts, structure
from .reach import CONTAINERS, attributes, held, reached, variables

SHARED = "shared memory"  # in the place of an output's path
MOST_ELEMENTS = 20_000  # of a variable that is looked at before and after each call
MADE_OF = "what it returns"  # in the place of an output's path


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def digest_of(given: Any) -> str:
    """A short digest of what a call is given, equal for equal values."""
    values = [part for i, leaf in enumerate(leaves(given)) for part in parts(f"argument[{i}]", leaf)]
    return digest([v if is_tensor(v) else (path, v) for path, v in values])


def left(given: Any) -> Values:
    """What its arguments hold after a call."""
    arguments = [part for i, leaf in enumerate(leaves(given)) for part in parts(f"argument[{i}]", leaf)]
    return {path: value for path, value in arguments if not isinstance(value, Unseen)}


def returned(result: Any, given: Any) -> Values:
    """What a call returned, tangents too, and what its arguments hold. given: its arguments."""
    outputs = [part for i, leaf in enumerate(leaves(result)) for part in parts(f"output[{i}]", leaf)]
    values = dict(outputs) | left(given)
    return values | _tangents(result) | {SHARED: _shared(result, given), MADE_OF: structure(result)}


def _tangents(result: Any) -> Values:
    """What forward-mode differentiation carries besides the outputs; None where an output carries nothing."""
    if forward_ad._current_level < 0:
        return {}
    outputs = enumerate(leaves(result))
    return {
        f"tangent[{i}]": forward_ad.unpack_dual(leaf).tangent
        for i, leaf in outputs
        if is_tensor(leaf) and leaf.is_floating_point()
    }


def _shared(result: Any, given: Any) -> str:
    """Which outputs lie in the memory of which arguments: a later write to one then shows in the other."""
    arguments = [(i, _memory(leaf)) for i, leaf in enumerate(leaves(given))]
    outputs = [(i, _memory(leaf)) for i, leaf in enumerate(leaves(result))]
    pairs = [f"output[{o}] with argument[{a}]" for o, m in outputs for a, n in arguments if m and m == n]
    return ", ".join(pairs) or "nothing"


def _memory(value: Any) -> int | None:
    """The address of a tensor's storage; None where it has none of its own to look at."""
    if not is_tensor(value) or value.layout is not torch.strided:
        return None
    try:
        return int(value.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):  # a subclass that wraps others, a functional tensor
        return None


def state(model: Any) -> Values:
    """The tensors that what was compiled reaches, and its variables and attributes, as far as they are
    known."""
    named = [part for name, value in _variables(model) for part in parts(name, value)]
    seen = [(name, value) for name, value in named if not isinstance(value, Unseen)]
    return {f"state[{name}]": value for name, value in (*held(model), *seen)}


def _variables(model: Any) -> Iterator[Named]:
    for prefix, owner in reached(model):
        for path, module in owner.named_modules() if isinstance(owner, torch.nn.Module) else ():
            where = ".".join(filter(None, (prefix, path)))
            yield from ((f"{where}.{n}" if where else n, value) for n, value in attributes(module))
    for name, value in variables(model):
        if not isinstance(value, CONTAINERS) or len(value) <= MOST_ELEMENTS:
            yield name, value


def gradients(model: Any, given: Any) -> Values:
    """The gradients that its arguments and the tensors that it reaches hold."""
    arguments = [(f"argument {i}", leaf) for i, leaf in enumerate(leaves(given)) if is_tensor(leaf)]
    return {
        f"grad[{name}]": leaf.grad
        for name, leaf in (*arguments, *held(model))
        if leaf.is_leaf and leaf.grad is not None
    }


def copied(values: Values) -> Values:
    """What a later write of the script cannot reach; whether it records gradients is kept."""
    return {path: _copy(value) if is_tensor(value) else value for path, value in values.items()}


def _copy(value: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = forward_ad.unpack_dual(value).primal.detach().clone() if _is_dual() else value.detach().clone()
    differentiable = made.is_floating_point() or made.is_complex()
    return made.requires_grad_(value.requires_grad) if differentiable else made


def _is_dual() -> bool:
    return forward_ad._current_level >= 0
