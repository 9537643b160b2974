"""What a compiled function, method or module uses besides its arguments: the functions and objects that it
leads to, and the modules, optimizers, tensors and variables that these hold.
"""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import random
import sys
import sysconfig
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import bisector

DEPTH = 5  # steps from what was compiled: to a function, a class that it uses, one of its methods, and so on
MOST_ELEMENTS = 64  # of a container in which modules and tensors are looked for
MOST_REACHED = 2000  # values that are looked at, in a script whose objects hold each other
PLAIN = (bool, int, float, complex, str, bytes, type(None))
CHANGING = (list, dict, set, deque, OrderedDict, defaultdict, Counter)  # containers whose content may change
CONTAINERS = (*CHANGING, tuple, frozenset)
OWNERS = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
# torch/nn/modules/module.py, torch/_tensor.py
_HOOKS = (
    "_backward_hooks", "_post_accumulate_grad_hooks", "_forward_hooks", "_forward_pre_hooks",
    "_backward_pre_hooks",
)  # fmt: skip
# Files whose functions and classes are not the user's.
_LIBRARIES = (
    str(Path(torch.__file__).parent), str(Path(bisector.__file__).parent), sysconfig.get_paths()["stdlib"],
    "site-packages", "dist-packages", "<frozen",
)  # fmt: skip


@dataclass
class Reached:
    """functions: the one that was compiled, of a module its `forward` and those of its submodules, and those
    of the user's own files that these call, or that are methods of the classes and objects that they use.
    objects: of the user's classes, by name, with these classes and the user's Python modules. owners:
    modules, optimizers and tensors by name: itself, the object of the method, arguments that are bound to it,
    and what the functions take from around them. bound: values by name that are bound to arguments of a
    partial function."""

    functions: list[types.FunctionType] = field(default_factory=list)
    objects: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, Any] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Those that the owners hold, by name."""
        for prefix, owner in self.owners.items():
            if isinstance(owner, torch.Tensor):
                yield prefix, owner
                continue
            for path, tensor in _held_by(owner):
                yield f"{prefix}.{path}" if prefix else path, tensor


def code_of(model: Any) -> types.CodeType | None:
    """Of the function that was compiled, of a module its `forward`; None where it is not written in
    Python."""
    while isinstance(model, functools.partial):
        model = model.func
    made = type(model).forward if isinstance(model, torch.nn.Module) else getattr(model, "__func__", model)
    if not inspect.isfunction(made) and not isinstance(made, type):
        made = type(made).__call__ if callable(made) else made  # an object that is called
    function = inspect.unwrap(made)
    return function.__code__ if inspect.isfunction(function) else None


def reached(model: Any) -> list[tuple[str, Any]]:
    """The modules, optimizers and tensors that a compiled module, method or function uses, by name."""
    return list(walk(model).owners.items())


def variables(model: Any) -> Iterator[tuple[str, Any]]:
    """What it takes from around it, or was bound to, that is plain, a container, or draws random numbers; of
    the user's objects their attributes of this sort."""
    found = walk(model)
    seen = set[str]()
    for name, value in _named_values(found):
        if name not in seen and (isinstance(value, (*PLAIN, random.Random)) or type(value) in CONTAINERS):
            seen.add(name)
            yield name, value


def _named_values(found: Reached) -> Iterator[tuple[str, Any]]:
    yield from found.bound.items()
    for function in found.functions:
        yield from around(function).items()
    for name, value in found.objects.items():
        yield from ((f"{name}.{key}", attribute) for key, attribute in attributes_of(value).items())


def attributes_of(value: Any) -> Mapping[str, Any]:
    """The attributes of an object, those of its slots too; of a class and a Python module those that no other
    has by itself."""
    if isinstance(value, (type, types.ModuleType)):
        return {name: one for name, one in vars(value).items() if not name.startswith("__")}
    slots = [s for cls in type(value).__mro__ for s in _slots_of(cls)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return held | dict(getattr(value, "__dict__", {}))


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def held(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that what was compiled reaches besides its arguments, by name."""
    return walk(model).tensors()


def _held_by(owner: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(owner, torch.nn.Module):
        yield from owner.named_parameters()
        yield from owner.named_buffers()
    elif isinstance(owner, torch.optim.Optimizer):
        parameters = [p for group in owner.param_groups for p in group["params"]]
        for i, parameter in enumerate(parameters):
            yield f"parameter {i}", parameter
            kept = owner.state.get(parameter, {})
            made = ((name, value) for name, value in kept.items() if isinstance(value, torch.Tensor))
            yield from ((f"{name} of parameter {i}", value) for name, value in made)


def attributes(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The plain attributes of one module, and its containers whose content may change; those that begin with
    an underscore where the user's code names them, since torch sets others."""
    for name, value in vars(module).items():
        plain = isinstance(value, PLAIN) or type(value) in CHANGING
        if plain and value is not None and name != "training" and is_own(module, name):
            yield name, value


def is_own(module: torch.nn.Module, name: str) -> bool:
    """Whether an attribute of a module is not one that torch sets."""
    return not name.startswith("_") or name in _named_by(type(module))  # type: ignore[arg-type] # of a class's own hash


@functools.lru_cache(maxsize=512)
def _named_by(cls: Any) -> frozenset[str]:
    """The names that the methods of a class of the user's, and of those that it derives from, use."""
    return frozenset(name for one in cls.__mro__ for made in _methods(one) for name in made.__code__.co_names)


def hooks_of(owner: torch.nn.Module | torch.Tensor) -> Iterator[tuple[str, dict[int, Any]]]:
    """The containers of what is registered to run with the forward or backward pass of a module or tensor,
    each with its sort."""
    for name in _HOOKS:
        if (hooks := getattr(owner, name, None)) is not None:
            yield name.strip("_").replace("_", " "), hooks


def around(function: types.FunctionType) -> dict[str, Any]:
    """What the function takes from around it, by name."""
    names = {name: function.__globals__[name] for name in global_names(function)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # nothing was put into it yet
            continue
    return names


def global_names(function: types.FunctionType) -> list[str]:
    """The global variables that the function reads or writes and that are there. Its code's `co_names` has
    the names of attributes too."""
    return [name for name in _global_names(function.__code__) if name in function.__globals__]


@functools.lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    codes = [code]
    for one in codes:  # functions and classes that are made within it
        codes += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
    loads = (i.argval for one in codes for i in dis.get_instructions(one) if i.opname.endswith("_GLOBAL"))
    return tuple(dict.fromkeys(loads))


# -- the walk ---------------------------------------------------------------------------------------------


def walk(model: Any, name: str = "") -> Reached:
    """All that it uses. name: how the program knows it; empty for what was compiled."""
    found = Reached()
    left: list[tuple[str, Any, int]] = [(name, model, DEPTH)]
    seen = set[int]()
    while left and len(seen) < MOST_REACHED:
        name, value, depth = left.pop(0)
        if id(value) not in seen:
            seen.add(id(value))
            more = list(_led_to(found, name, value))
            left += [(n, v, depth - 1) for n, v in more if depth > 0]
    return found


def _led_to(found: Reached, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Notes what a value is, and gives what it leads to, by name."""
    if isinstance(value, OWNERS):
        found.owners.setdefault(name, value)
        if isinstance(value, torch.nn.Module):
            for cls in {type(module): None for module in value.modules()}:
                found.objects.update({cls.__qualname__: cls} if _methods(cls) else {})
                yield "forward", cls.forward
    elif isinstance(value, functools.partial):
        yield name, value.func
        found.bound.update(arguments := _bound(value))
        yield from arguments.items()
    elif inspect.ismethod(value):
        yield name, value.__self__
        yield name, value.__func__
    elif callable(value) and inspect.isfunction(function := inspect.unwrap(value)):
        if not name or _is_the_users(function.__code__.co_filename):
            found.functions.append(function)
            for key, used in around(function).items():
                yield key, used
                yield from _used_of(function, key, used)
    elif type(value) in CONTAINERS:
        yield from _in_container(name, value)
    elif isinstance(value, type):
        if is_a_class_of_the_users(value):
            found.objects.setdefault(name, value)
            yield from ((base.__qualname__, base) for base in value.__bases__)
        yield from ((name, method) for method in _methods(value))
    elif isinstance(value, types.ModuleType):
        if _is_a_module_of_the_users(value):
            found.objects.setdefault(name, value)
    elif is_an_object(value):
        found.objects.setdefault(name, value)
        yield type(value).__qualname__, type(value)
        prefix = f"{name}." if name else ""
        yield from ((f"{prefix}{key}", attribute) for key, attribute in attributes_of(value).items())


def _used_of(function: types.FunctionType, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a function takes from a Python module of the user's, which it knows by this name."""
    if isinstance(value, types.ModuleType) and _is_a_module_of_the_users(value):
        for key in function.__code__.co_names:
            if key in vars(value):
                yield f"{name}.{key}", vars(value)[key]


def _bound(partial: functools.partial[Any]) -> dict[str, Any]:
    """What a partial function binds, by the names of its parameters."""
    try:
        return dict(inspect.signature(partial.func).bind_partial(*partial.args, **partial.keywords).arguments)
    except (TypeError, ValueError):  # it has no signature
        return {f"argument {i}": value for i, value in enumerate(partial.args)} | partial.keywords


def _in_container(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Of a set nothing: the order of its objects is that of their addresses."""
    if isinstance(value, (set, frozenset)):
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for _, (key, one) in zip(range(MOST_ELEMENTS), items, strict=False):
        if isinstance(one, OWNERS) or type(one) in CONTAINERS or is_an_object(one):
            yield f"{name}[{key!r}]", one


def _methods(cls: type) -> list[Any]:
    """The functions of a class of the user's, and those in a decorator, which a fix may have put there."""
    made = [getattr(one, "__func__", getattr(one, "fget", one)) for one in vars(cls).values()]
    found = [inspect.unwrap(one) for one in made if inspect.isfunction(one)]
    return [m for m in found if inspect.isfunction(m) and _is_the_users(m.__code__.co_filename)]


def is_a_class_of_the_users(value: type) -> bool:
    """Whether the user wrote it, or one that it derives from, and it is no enumeration."""
    own = _is_a_module_of_the_users(sys.modules.get(value.__module__))
    return not issubclass(value, enum.Enum) and (own or any(map(_methods, value.__mro__)))


def is_an_object(value: Any) -> bool:
    """Whether it is an object whose class the user wrote, or one that merely holds names."""
    if isinstance(value, types.SimpleNamespace):
        return True
    known = (*PLAIN, *OWNERS, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    return not isinstance(value, known) and is_a_class_of_the_users(type(value))


def _is_a_module_of_the_users(module: types.ModuleType | None) -> bool:
    return _is_the_users(getattr(module, "__file__", None) or "<frozen")


def _is_the_users(filename: str) -> bool:
    return not any(part in filename for part in _LIBRARIES)
