"""The JSON Schema of result.json, made of the types of its document: `python -m bisector.report.schema`.

cattrs, which writes the document, makes no schemas; pydantic and msgspec, which do, want types of their own.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from bisector.core.decision import DecisionId

from .bounds import MAGNITUDE, Bounds
from .document import LEFT_OUT, VERSION, Document
from .document_json import json_name

FILE = Path(__file__).with_name("result.schema.json")
_DESCRIPTION = (
    "What one run found. docs/result-schema.md explains each field. null = could not be established."
)
_PLAIN = {str: "string", int: "integer", bool: "boolean", type(None): "null", DecisionId: "string"}


def schema() -> dict[str, Any]:
    """The whole; each dataclass has its place in `$defs`."""
    defs: dict[str, Any] = {}
    whole = _of_class(Document, defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:numbisect:result:{VERSION}",
        "title": f"result.json of numbisect, schema_version {VERSION}",
        "description": _DESCRIPTION,
        **whole,
        "$defs": dict(sorted(defs.items())),
    }


def text() -> str:
    return json.dumps(schema(), indent=1) + "\n"


def _of_class(kind: type, defs: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.name in hints]
    required = [json_name(field.name) for field in fields if field.metadata != LEFT_OUT]
    properties = {json_name(field.name): _of(hints[field.name], defs) for field in fields}
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _of(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = [bounds for bounds in arguments[1:] if isinstance(bounds, Bounds)]
        return _bounded(_of(arguments[0], defs), *bounds)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(one, defs) for one in arguments]}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _of(arguments[0], defs)}
    if origin is tuple:
        several = {"minItems": len(arguments), "maxItems": len(arguments)}
        return {"type": "array", "items": _of(arguments[0], defs), **several}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of(arguments[1], defs)}
    if kind is Any:
        return {}
    if kind is float:
        return MAGNITUDE.keywords
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind):
        return _reference(kind, defs)
    return {"type": _PLAIN[kind]}


def _bounded(plain: dict[str, Any], *bounds: Bounds) -> dict[str, Any]:
    """Alternatives stand for the type, anything else beside it."""
    found = dict(plain)
    for one in bounds:
        found = one.keywords if "anyOf" in one.keywords else {**found, **one.keywords}
    return found


def _reference(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in defs:
        defs[kind.__name__] = {}
        defs[kind.__name__] = _of_class(kind, defs)
    return {"$ref": f"#/$defs/{kind.__name__}"}


if __name__ == "__main__":
    FILE.write_text(text())
