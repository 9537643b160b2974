"""Any value of a script as values that can be kept in a file and compared with those of another run: tensors,
numbers, strings, and of what is made of others its parts.
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

from ..equality import digest
from ..run_values import Rest, Unseen
from .reach import PLAIN, attributes_of

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
