"""What one call of something compiled gives: what it returns, what it leaves in its arguments and in what it
reaches. Any value of a script is made into values that can be kept in a file and compared with those of
another run: tensors, numbers, strings, and of what is made of others its parts.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import random
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.autograd import forward_ad

from ..equality import digest
from ..run_values import Rest, Unseen, Values
from .reach import CONTAINERS, PLAIN, attributes, attributes_of, held, reached, variables

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


Named = tuple[str, Any]  # where a value stands (`output[0].mean`), and what is compared of it
MOST_LEAVES = 64  # of one container that are compared one by one; of the others a digest
DEPTH = 6  # objects within objects
MOST_TEXT = 200  # characters of a structure that are shown
_SHOWN_AS_TEXT = (
    enum.Enum, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, range, slice, type,
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type(NotImplemented), type(Ellipsis),
)  # fmt: skip


def parts(path: str, value: Any, depth: int = DEPTH) -> Iterator[Named]:
    """The value itself, where it can be compared, or its parts, each with its place. What is of no type that
    is known, or lies too deep, is `Unseen`."""
    if isinstance(value, (torch.Tensor, *PLAIN)):
        yield path, value
    elif isinstance(value, _SHOWN_AS_TEXT):
        yield path, _text_of(value)
    elif (state := _state_of_generator(value)) is not None:
        yield path, f"random state {hashlib.sha256(state.encode()).hexdigest()[:8]}"
    elif (array := _as_tensor(value)) is not None:
        yield path, array
    elif depth == 0:
        yield path, Unseen(f"a {type(value).__name__} within {DEPTH} others")
    elif (items := _items(path, value)) is not None:
        yield from _of_items(path, items, depth)
    else:
        yield path, Unseen(f"a {type(value).__name__}")


def _of_items(path: str, items: list[Named], depth: int) -> Iterator[Named]:
    for where, one in items[:MOST_LEAVES]:
        yield from parts(where, one, depth - 1)
    if rest := items[MOST_LEAVES:]:
        found = [leaf for where, one in rest for leaf in parts(where, one, depth - 1)]
        yield f"{path}, from value {MOST_LEAVES} on", Rest(len(rest), _digest(found))


def _items(path: str, value: Any) -> list[Named] | None:
    """What the value is made of; None where that is not known."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):  # of strings or objects
        value = value.tolist() if value.ndim else [value.item()]
    if isinstance(value, Mapping):
        items = [(f"{path}[{_key(key, i)}]", one) for i, (key, one) in enumerate(value.items())]
        return [(f"the length of {path}", len(value)), *items]
    if isinstance(value, (set, frozenset)):
        if not all(map(_is_plain_key, value)):
            return None  # its order is that of addresses in memory
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)) or _is_of_the_library(value, ("array", "deque")):
        several = [(f"{path}, value {i}", one) for i, one in enumerate(value)]
        return [(f"the length of {path}", len(several)), *several]
    if isinstance(value, torch.nn.Module):
        return [(f"{path}.{name}", tensor) for name, tensor in value.state_dict().items()]
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__") or hasattr(type(value), "__slots__"):
        held = attributes_of(value)
        if held or dataclasses.is_dataclass(value):
            return [(f"{path}.{name}", one) for name, one in held.items()]
    return None


def _is_of_the_library(value: Any, names: Iterable[str]) -> bool:
    return type(value).__module__ in ("array", "collections") and type(value).__name__ in names


def _key(key: Any, place: int = 0) -> str:
    """Not by its address in memory, which is another in each process. place: among the keys."""
    return repr(key) if _is_plain_key(key) else f"{type(key).__name__} {place}"


def _is_plain_key(key: Any) -> bool:
    """Whether its text is the same in each process."""
    if type(key) in (tuple, frozenset):
        return all(map(_is_plain_key, key))
    return isinstance(key, (*PLAIN, enum.Enum, torch.dtype, torch.device))


def _text_of(value: Any) -> str:
    named = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"{type(value).__name__} {named}" if isinstance(named, str) else str(value)


def _as_tensor(value: Any) -> torch.Tensor | None:
    """An array or a scalar of NumPy's as a tensor; None where it is none, or has no tensor's dtype."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    try:
        return torch.from_numpy(numpy.array(value, copy=True, subok=False))
    except (TypeError, ValueError):
        return None


def _state_of_generator(value: Any) -> str | None:
    if isinstance(value, random.Random):
        return repr(value.getstate())
    if isinstance(value, torch.Generator):
        return repr(value.get_state().tolist())
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return repr(value.bit_generator.state)
    return None


def _digest(values: Iterable[Named]) -> str:
    hasher = hashlib.sha256()
    for where, value in values:
        text = digest([value]) if isinstance(value, torch.Tensor) else repr(value)
        hasher.update(f"{where}={text};".encode())
    return hasher.hexdigest()


def structure(value: Any) -> str:
    """What a value is made of, without the values: `(tensor, {'loss': float})`. A scalar of NumPy's counts as
    an array, as Dynamo makes it one (torch/_numpy)."""
    text = _structure(value, DEPTH)
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def _structure(value: Any, depth: int) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if depth == 0 or value is None:
        return "None" if value is None else type(value).__name__
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_structure(one, depth - 1) for one in value)
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner})" if type(value) is tuple else f"{type(value).__name__}({inner})"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(k)}: {_structure(v, depth - 1)}" for k, v in value.items())
        return f"{'' if type(value) is dict else type(value).__name__}{{{inner}}}"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return "array"
    return type(value).__name__


def leaves(given: Any) -> list[Any]:
    """The values that a call was given or gave, in the order in which answers number them."""
    return pytree.tree_leaves(given)
