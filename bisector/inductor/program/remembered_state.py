"""The state that a call of something compiled begins with, to be put back: what the call reaches besides its
arguments, and the random generators.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from ..generators import Generators
from ..torch_state import Modes
from .reach import (
    CHANGING,
    PLAIN,
    attributes_of,
    bound,
    functions,
    global_names,
    held,
    hooks_of,
    is_own,
    objects,
    reached,
)

_PLAIN = (*PLAIN, *CHANGING)
_OF_MODULES = ("_parameters", "_buffers")


class Remembered:
    """The state as it is now.

    Tensors by what is in their memory, so that autograd does not see that it is put back. Of modules also
    which tensors they hold, their hooks and their plain attributes; of functions and of the user's objects
    their plain variables, containers by what is in them, and generators of Python's `random`. What is reached
    in other ways is not remembered.
    """

    def __init__(self, model: Any) -> None:
        self.modes = Modes.now()
        self._generators = Generators()
        self._undo: list[Callable[[], Any]] = [*_of_tensors(model), *_of_objects(model)]

    def put_back(self) -> None:
        """Make everything as it was; can be done several times."""
        for undo in self._undo:
            undo()
        self._generators.put_back()

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since."""
        return bool(self._generators.drawn())


def _of_tensors(model: Any) -> Iterator[Callable[[], Any]]:
    seen = set()
    for _, tensor in held(model):
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            continue
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            yield partial(storage.copy_, storage.clone())


def _of_objects(model: Any) -> Iterator[Callable[[], Any]]:
    for _, owner in reached(model):
        if isinstance(owner, torch.nn.Module):
            for module in owner.modules():
                for name in _OF_MODULES:
                    yield from _variable(module.__dict__[name], dict(module.__dict__[name]))
                own = {k: v for k, v in module.__dict__.items() if is_own(module, k)}
                plain = {name: value for name, value in own.items() if isinstance(value, _PLAIN)}
                yield from _variable(module.__dict__, plain)
                for hooks in hooks_of(module):
                    yield partial(_refill, hooks, hooks.copy())
    for function in functions(model):
        for cell in function.__closure__ or ():
            yield from _cell(cell)
        names = {name: function.__globals__[name] for name in global_names(function)}
        plain = {name: value for name, value in names.items() if _is_remembered(value)}
        yield from _variable(function.__globals__, plain)
    for _, value in objects(model):
        for name, attribute in attributes_of(value).items():
            if _is_remembered(attribute):
                yield partial(_bind, value, name, attribute)
                yield from _content(attribute)
    for value in bound(model):
        yield from _content(value)


def _variable(names: dict[str, Any], values: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Variables by name: what they are bound to, and what is in it."""
    yield partial(names.update, values)
    for value in values.values():
        yield from _content(value)


def _bind(owner: Any, name: str, value: Any) -> None:
    """Without what a class of the user's does when an attribute is set."""
    names = getattr(owner, "__dict__", None)
    if isinstance(names, dict) and name in names:
        names[name] = value
    else:
        (type if isinstance(owner, type) else object).__setattr__(owner, name, value)


def _cell(cell: Any) -> Iterator[Callable[[], Any]]:
    value = _value_of(cell)
    if value is not None and _is_remembered(value):
        yield partial(setattr, cell, "cell_contents", value)
        yield from _content(value)


def _is_remembered(value: Any) -> bool:
    return isinstance(value, (*_PLAIN, random.Random, torch.Tensor))


def bindings(model: Any) -> list[tuple[torch.Tensor, Callable[[torch.Tensor], Any]]]:
    """The tensors that what was compiled reaches by a name, each with what binds the name to another one."""
    found: list[tuple[Any, Callable[[torch.Tensor], Any]]] = []
    for _, owner in reached(model):
        if isinstance(owner, torch.nn.Module):
            for names in (module.__dict__[kind] for module in owner.modules() for kind in _OF_MODULES):
                found += [(value, partial(names.__setitem__, name)) for name, value in names.items()]
    for function in functions(model):
        names = function.__globals__
        found += [(names[n], partial(names.__setitem__, n)) for n in global_names(function)]
        cells = function.__closure__ or ()
        found += [(_value_of(cell), partial(setattr, cell, "cell_contents")) for cell in cells]
    return [(value, bind) for value, bind in found if isinstance(value, torch.Tensor)]


def _value_of(cell: Any) -> Any:
    """None also where nothing was put into it yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _content(value: Any) -> Iterator[Callable[[], Any]]:
    if isinstance(value, random.Random):
        yield partial(value.setstate, value.getstate())
    elif type(value) in CHANGING:
        yield partial(_refill, value, value.copy())


def _refill(value: Any, content: Any) -> None:
    value.clear()
    (value.extend if isinstance(value, (list, deque)) else value.update)(content)
