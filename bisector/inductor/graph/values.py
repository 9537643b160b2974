"""Python values as source text: everything a graph or a setting can hold, except tensors."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

LINE_WIDTH = 110  # of the emitted source


@dataclass(frozen=True)
class Place:
    """Where a call will stand. indent: of its statement; extra_columns: of its first line, around it."""

    indent: int = 0
    extra_columns: int = 0


AT_MARGIN = Place()


class CannotWrite(Exception):
    """The graph or a value has no source form that is exactly the same; the message says which and why."""


def value_source(value: Any) -> str:
    """The expression that gives `value` back.

    `inf` and `nan` stand under these names, as in `from math import inf, nan`.
    Raises CannotWrite for a value without an exact text.
    """
    if value is ...:
        return "..."
    if isinstance(value, str):
        plain = '"' not in value and repr(value) == f"'{value}'"
        return f'"{value}"' if plain else repr(value)
    if value is None or isinstance(value, (bool, bytes)):
        return repr(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value_source(concrete(value))
    if isinstance(value, (int, float, complex)):
        return _number(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f'"{value}"'
    if isinstance(value, (slice, range)):
        return _call(type(value).__name__, [value.start, value.stop, value.step])
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{value_source(k)}: {value_source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return tuple_source([value_source(item) for item in value])
    if isinstance(value, list):
        return "[" + ", ".join(value_source(item) for item in value) + "]"
    raise CannotWrite(
        f"a value of type {type(value).__module__}.{type(value).__qualname__} has no source form"
    )


def concrete(value: Any) -> Any:
    """The number behind a symbolic one, as it was when the graph was captured; other values as they are."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    hint = value.node.hint  # read, not asked for: int(value) would add a guard to the live shape environment
    if hint is None:
        raise CannotWrite(f"the symbolic number {value} has no known value")
    return hint


def tuple_source(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else "(" + ", ".join(items) + ")"


def call_source(head: str, arguments: Sequence[str], place: Place = AT_MARGIN) -> str:
    """`head(arguments)`, over several lines where it is too long for its place."""
    line = f"{head}({', '.join(arguments)})"
    if place.indent + place.extra_columns + len(line) <= LINE_WIDTH or not arguments:
        return line
    margin = " " * (place.indent + 4)
    return f"{head}(\n{filled(arguments, margin)}\n{' ' * place.indent})"


def filled(items: Sequence[str], margin: str) -> str:
    """The items with commas between them, as many on a line as fit; an item is never broken."""
    lines, line = [], margin
    for position, item in enumerate(items):
        piece = item + ("," if position < len(items) - 1 else "")
        if line != margin and len(line) + 1 + len(piece) > LINE_WIDTH:
            lines.append(line)
            line = margin
        line += piece if line == margin else " " + piece
    return "\n".join([*lines, line])


def _call(name: str, arguments: Sequence[Any]) -> str:
    return f"{name}({', '.join(value_source(a) for a in arguments)})"


def _number(value: complex) -> str:
    if isinstance(value, complex):
        # `-1j` and `1-0j` are sums in Python, which lose the sign of a zero
        plain = cmath.isfinite(value) and value.real != 0 and value.imag != 0
        return repr(value) if plain else f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return repr(value)
