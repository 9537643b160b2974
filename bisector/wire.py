"""The types of `core` as JSON and back: what a socket, a journal and a file of options hold.

cattrs makes the conversion from the fields' types, so that no class writes it by hand. What is equal to its
default is left out, and sets are sorted: equal values have equal texts.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar, get_origin

from cattrs.preconf.json import JsonConverter, make_converter
from cattrs.strategies import configure_union_passthrough

from bisector.core.decision import DecisionId
from bisector.core.model import Json

T = TypeVar("T")


def _converter() -> JsonConverter:
    made = make_converter(omit_if_default=True, detailed_validation=False)
    configure_union_passthrough(int | str | None, made)
    made.register_structure_hook(DecisionId, lambda raw, _: DecisionId(raw))
    made.register_unstructure_hook_func(lambda kind: get_origin(kind) is frozenset, sorted)
    return made


_CONVERTER = _converter()


def dump(value: Any) -> Json:
    """A dataclass of `core` as what json.dumps takes."""
    return _CONVERTER.unstructure(value)


class Asked(Protocol):
    """What a command was asked. command: its name."""

    @property
    def command(self) -> str: ...


def dump_command(asked: Asked) -> dict[str, Json]:
    """What a command was asked, with the command's name: what a file of a run holds, and `load` reads."""
    return {"command": asked.command, **dump(asked)}


def load(kind: type[T], raw: Json) -> T:
    """The value that `dump` made `raw` of. Raises an exception where it is none of that type."""
    return _CONVERTER.structure(raw, kind)


def text_of(value: Json) -> str:
    """Equal texts for equal values."""
    return json.dumps(value, sort_keys=True)
