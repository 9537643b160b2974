"""What could not be established is null: every report must stand that, wherever the schema allows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bisector.report import markdown, sections, terminal
from tests.report import samples

SCHEMA = json.loads((Path(__file__).parents[2] / "bisector/report/result.schema.json").read_text())


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field, list entries and inner objects too."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in steps:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def with_null(result: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    at: Any = result
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = None
    return result


@pytest.mark.parametrize("name", samples.ALL)
def test_reports_stand_every_null_that_the_schema_allows(name: str) -> None:
    validator = Draft202012Validator(SCHEMA)
    nulled = [with_null(samples.ALL[name](), path) for path in paths(samples.ALL[name]())]
    valid = [result for result in nulled if validator.is_valid(result)]
    assert len(valid) > 15
    for result in valid:
        told = sections.report(samples.document(result))
        assert terminal.render(told, 80, color=False)
        assert markdown.render(told)


def test_reports_stand_a_result_without_the_optional_fields() -> None:
    result = samples.softmax_pair()
    for key in set(result) - set(SCHEMA["required"]):
        del result[key]
    result["decisions"] = {}
    del result["minimal"]["graph"]
    told = sections.report(samples.document(result))
    page = terminal.render(told, 100, color=False)
    assert "A product and a sum are rounded once, as one multiply-add." in page
    assert "A product and a sum are rounded once" in markdown.render(told)
