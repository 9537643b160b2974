"""A script call by call: the place in the first line where it differs first, and the table of its calls."""

from __future__ import annotations

import re

from bisector.core.standing import Value

from .blocks import Paragraph, Section, Table, Tone, cell
from .document import CallStanding, Document, FirstPlace
from .words import conjunction, number

MOST_ROWS = 12  # of the table; result.json has all
_PATH = re.compile(r"(?P<family>\w+)\[(?P<name>.*?)\](?P<rest>.*)")
_HEADER = ("call", "returns", "gradients", "leaves behind", "on equal inputs")
_EXPLAINED = (
    "The largest difference over the largest value of what a call returns, of gradients, and of what "
    "arguments, parameters and buffers hold afterwards; and the first value that does not agree where "
    "eager has the inputs of that call."
)


def where(result: Document) -> str:
    """What follows the verdict in the first line; empty where no call differs."""
    found = result.first_place
    if found is None or not found.values:
        return ""
    returned = all(value.path.startswith("output") for value in found.values)
    at = f" {'of' if returned else 'after'} call {found.call} of {found.of}" if found.of > 1 else ""
    return f", first in {conjunction([_differing(value) for value in found.values])}{at}"


def _differing(value: Value) -> str:
    said = "compiled changes it, and eager does not" if value.by_compiled else value.mismatch
    return f"{_value(value.path, value.argument)}{f' ({said})' if said else ''}"


def section(result: Document) -> Section | None:
    """How each call of a script stands to eager; None where it makes one call."""
    calls = result.calls
    if len(calls) < 2:
        return None
    shown = calls if len(calls) <= MOST_ROWS else _around(calls, result.first_place)
    rows = tuple(tuple(map(cell, _row(one))) for one in shown)
    more = [Paragraph(f"{len(calls) - len(shown)} more calls: see result.json.", Tone.QUIET)]
    said = Paragraph(_EXPLAINED, Tone.QUIET)
    blocks = (Table(rows, _HEADER, frozenset({1, 2, 3})), *(more if len(shown) < len(calls) else ()), said)
    return Section("Calls", blocks, _meanwhile(result), gist=())


def _around(calls: tuple[CallStanding, ...], first: FirstPlace | None) -> tuple[CallStanding, ...]:
    """The calls around the one that differs first."""
    begin = 0 if first is None else max(0, min(first.call - MOST_ROWS // 2, len(calls) - MOST_ROWS))
    return calls[begin : begin + MOST_ROWS]


def _row(one: CallStanding) -> tuple[str, ...]:
    worst = ("-" if value is None else number(value) for value in (one.outputs, one.gradients, one.left))
    beside = "not seen" if one.differs is None else _value(one.differs) if one.differs else "agrees"
    return (str(one.call), *worst, beside)


def _meanwhile(result: Document) -> str:
    """How well what the calls return agrees where something else differs first."""
    first = result.first_place
    if first is None or any(value.path.startswith("output") for value in first.values):
        return ""
    returned = [one.outputs for one in result.calls[: first.call] if one.outputs is not None]
    if not returned:
        return ""
    return f"up to call {first.call} what they return differs by at most {number(max(returned))}"


def _value(path: str, argument: str = "") -> str:
    """A value of a call in words. argument: the name of the one that it belongs to, where it is known."""
    found = _PATH.fullmatch(path)
    if found is None:
        return path
    name, rest = found["name"], found["rest"]
    if argument:
        return f"the gradient of `{argument}`" if found["family"] == "grad" else f"`{argument}{rest}`"
    named = {
        "output": f"output {name}",
        "argument": f"argument {name}",
        "grad": f"the gradient of {name if name.startswith('argument ') else f'`{name}`'}",
        "state": f"`{name}`",
        "tangent": f"the tangent of output {name}",
    }
    return f"{named[found['family']]}{rest}" if found["family"] in named else path
