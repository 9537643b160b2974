"""The document result.json as JSON and back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from bisector.core.decision import DecisionId
from bisector.errors import BadOption

from .document import LEFT_OUT, VERSION, Document


def json_name(name: str) -> str:
    """Of a field: without the underscore of a name that Python keeps for itself."""
    return name.rstrip("_")


def _converter() -> Converter:
    made = Converter(detailed_validation=False, unstruct_collection_overrides={Sequence: list, tuple: list})
    made.register_structure_hook(DecisionId, lambda raw, _: DecisionId(raw))
    made.register_unstructure_hook(float, _finite)
    made.register_unstructure_hook(DecisionId, str)
    made.register_structure_hook_factory(dataclasses.is_dataclass, lambda kind: _reader(kind, made))
    made.register_unstructure_hook_factory(dataclasses.is_dataclass, lambda kind: _writer(kind, made))
    return made


def _finite(value: float) -> float | str:
    """The float, or "inf", "-inf" and "nan", which JSON has no numbers for."""
    return value if math.isfinite(value) else str(value)


def _overrides(kind: type) -> dict[str, Any]:
    """left out: the default of a field with LEFT_OUT."""
    return {
        field.name: override(rename=json_name(field.name), omit_if_default=field.metadata == LEFT_OUT)
        for field in dataclasses.fields(kind)
    }


def _reader(kind: type, made: Converter) -> Callable[[Any, Any], Any]:
    return make_dict_structure_fn(kind, made, **_overrides(kind))


def _writer(kind: type, made: Converter) -> Callable[[Any], Any]:
    return make_dict_unstructure_fn(kind, made, **_overrides(kind))


_CONVERTER = _converter()


def to_json(document: Document) -> dict[str, Any]:
    """What json.dumps takes."""
    found: dict[str, Any] = _CONVERTER.unstructure(document)
    return found


def from_json(raw: Any) -> Document:
    """The document that `to_json` made `raw` of. Raises BadOption where it is of another version."""
    if not isinstance(raw, dict) or raw.get("schema_version") != VERSION:
        raise BadOption("this result.json is of another version of numbisect; run it again")
    try:
        return _CONVERTER.structure(raw, Document)
    except (KeyError, TypeError, ValueError) as error:
        message = f"this result.json lacks or has wrong: {error}; numbisect run again writes a whole one"
        raise BadOption(message) from error
