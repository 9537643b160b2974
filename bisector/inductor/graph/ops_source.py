"""One call of a graph as the Python that a person would write for it."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.fx.node import _get_qualified_name

from .values import CannotWrite, Place, call_source, tuple_source, value_source

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is_": "is", "is_not": "is not",
}  # fmt: skip
PREFIX = {"neg": "-", "pos": "+", "invert": "~", "not_": "not "}
IN_PLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "ipow": "**=", "imatmul": "@=", "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=",
    "irshift": ">>=",
}  # fmt: skip
OP_NAMESPACES = ("aten", "prims", "quantized", "mkldnn", "onednn")  # there as soon as torch is imported


@dataclass(frozen=True)
class Scope:
    """What the text of a call needs to know: the name of each node, and the imports it makes necessary."""

    names: dict[fx.Node, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)

    def value(self, value: Any) -> str:
        """The text of an argument: nodes by their names, anything else as a literal."""
        if isinstance(value, fx.Node):
            return self.names[value]
        if isinstance(value, slice):
            return f"slice({', '.join(self.value(v) for v in (value.start, value.stop, value.step))})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{value_source(k)}: {self.value(v)}" for k, v in value.items()) + "}"
        if isinstance(value, tuple):
            return tuple_source([self.value(item) for item in value])
        if isinstance(value, list):
            return "[" + ", ".join(self.value(item) for item in value) + "]"
        return value_source(value)

    def index(self, key: Any) -> str:
        """The text between the brackets of `x[...]`."""
        if isinstance(key, tuple) and key:
            return ", ".join(self._place(item) for item in key) + ("," if len(key) == 1 else "")
        return self._place(key)

    def _place(self, item: Any) -> str:
        if not isinstance(item, slice):
            return self.value(item)
        start, stop, step = ("" if v is None else self.value(v) for v in (item.start, item.stop, item.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
        return [self.value(a) for a in args] + [f"{k}={self.value(v)}" for k, v in kwargs.items()]


def expression(node: fx.Node, scope: Scope, place: Place) -> str:
    """The right-hand side for a call_function or call_method node."""
    if node.op == "call_method":
        receiver, *rest = node.args
        owner = scope.value(receiver)
        if not isinstance(receiver, fx.Node):
            owner = f"({owner})"
        return call_source(f"{owner}.{node.target}", scope.arguments(rest, node.kwargs), place)
    target = node.target
    plain = _operator_source(target, node, scope) if not node.kwargs else None
    if plain is not None:
        return plain
    assert callable(target)
    return call_source(function_name(target, scope), scope.arguments(node.args, node.kwargs), place)


def _operator_source(target: Any, node: fx.Node, scope: Scope) -> str | None:
    """The operator form of a call, or None where there is none."""
    name, args = getattr(target, "__name__", ""), node.args
    if target is getattr and len(args) == 2 and str(args[1]).isidentifier():
        return f"{scope.value(args[0])}.{args[1]}"
    if getattr(operator, name, None) is not target:
        return None
    if name == "getitem" and isinstance(args[0], fx.Node):
        return f"{scope.value(args[0])}[{scope.index(args[1])}]"
    if name in INFIX and len(args) == 2:
        left = _operand(args[0], scope)
        right = scope.value(args[1])
        return f"{left} {INFIX[name]} {right}"
    if name in PREFIX and len(args) == 1:
        return PREFIX[name] + _operand(args[0], scope)
    return None


def _operand(value: Any, scope: Scope) -> str:
    """A left operand: `-2 ** x` would be `-(2 ** x)`."""
    text = scope.value(value)
    return f"({text})" if text.startswith("-") else text


def statement_in_place(node: fx.Node, scope: Scope) -> str | None:
    """`x += 1` and `x[1:] = y` as statements; None for any other node, and for `+=` on what is not a tensor.

    On a number `x += 1` would bind the name anew, and a later reader of the old number would see the new one.
    """
    if node.target is operator.setitem and isinstance(node.args[0], fx.Node):
        owner, key, value = node.args
        return f"{scope.value(owner)}[{scope.index(key)}] = {scope.value(value)}"
    name = getattr(node.target, "__name__", "")
    if name not in IN_PLACE or getattr(operator, name) is not node.target:
        return None
    changed = node.args[0]
    if not isinstance(changed, fx.Node) or not isinstance(changed.meta.get("example_value"), torch.Tensor):
        return None
    return f"{scope.value(changed)} {IN_PLACE[name]} {scope.value(node.args[1])}"


def autocast_source(
    device_type: str,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> str:
    """`torch.autocast(...)` for the arguments of torch.amp.autocast_mode.autocast."""
    options = {"dtype": (dtype, None), "enabled": (enabled, True), "cache_enabled": (cache_enabled, None)}
    given = [f"{key}={value_source(value)}" for key, (value, default) in options.items() if value != default]
    return f"torch.autocast({', '.join([value_source(device_type), *given])})"


def function_name(target: Callable[..., Any], scope: Scope) -> str:
    """The public name of a function, e.g. `F.gelu` for `torch._C._nn.gelu`: the very same object.

    Raises CannotWrite for what plain torch and the standard library do not have.
    """
    if isinstance(target, torch._ops.HigherOrderOperator):
        raise CannotWrite(f"the higher-order op {target} has no plain form")
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        if str(target).partition(".")[0] not in OP_NAMESPACES:
            raise CannotWrite(f"{target} is not one of torch's own ops")
        return f"torch.ops.{target}"
    name = public_names().get(id(target)) or _importable_name(target)
    if name.startswith("torch.nn.functional."):
        scope.imports.add("import torch.nn.functional as F")
        return "F" + name.removeprefix("torch.nn.functional")
    root = name.partition(".")[0]
    if root in ("math", "operator"):
        scope.imports.add(f"import {root}")
    return name.removeprefix("builtins.")


def _importable_name(target: Callable[..., Any]) -> str:
    try:
        name = _get_qualified_name(target).replace("_operator.", "operator.")
    except (AttributeError, RuntimeError) as error:
        raise CannotWrite(f"{target} has no name: {error}") from error
    name = name if "." in name else f"builtins.{name}"
    root, *path = name.split(".")
    found = functools.reduce(lambda owner, part: getattr(owner, part, None), path, sys.modules.get(root))
    if found is not target or root not in ("torch", "math", "operator", "builtins"):
        raise CannotWrite(f"{name} is not a function of torch or of the standard library")
    return name


@functools.cache
def public_names() -> dict[int, str]:
    """Identity of each public torch function to its shortest public name."""
    names: dict[int, str] = {}
    modules = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special, torch.nested, torch.sparse)
    for module in modules:
        for attribute, value in vars(module).items():
            if callable(value) and not attribute.startswith("_") and not isinstance(value, type):
                names.setdefault(id(value), f"{module.__name__}.{attribute}")
    return names
