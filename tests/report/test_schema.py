"""The JSON Schema takes what a run writes and refuses what no run may write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bisector.core.verdict import Rule, VerdictClass
from bisector.errors import BadOption
from bisector.report import document_json, schema, words
from tests.report import samples

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "bisector/report/result.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_itself_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_is_the_one_that_the_types_of_the_document_give() -> None:
    assert schema.FILE.read_text() == schema.text(), "python -m bisector.report.schema writes it again"


@pytest.mark.parametrize("name", samples.ALL)
def test_a_document_that_is_read_is_written_again_as_it_was(name: str) -> None:
    result = samples.ALL[name]()
    assert document_json.to_json(samples.document(result)) == result


@pytest.mark.parametrize("planted", [{"schema_version": 0}, {"probes": {}}, {"causes": [{}]}])
def test_a_result_of_another_version_or_torn_is_refused_in_one_line(planted: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=r"^this result\.json [^\n]*$"):
        samples.document(samples.softmax_pair() | planted)


@pytest.mark.parametrize("name", samples.ALL)
def test_every_sample_is_valid_and_plain_json(name: str) -> None:
    result = samples.ALL[name]()
    VALIDATOR.validate(result)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize(("field", "values"), [("class", VerdictClass), ("rule", Rule)])
def test_what_a_verdict_may_say_has_a_place_in_the_schema_and_in_the_docs(field: str, values: Any) -> None:
    said = {value.value for value in values}
    assert set(SCHEMA["$defs"]["VerdictPart"]["properties"][field]["enum"]) == said
    words_page = (ROOT / "docs/words.md").read_text()
    assert [value for value in sorted(said) if f"`{value}`" not in words_page] == []


def set_at(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def plant(result: dict[str, Any]) -> None:
        at: Any = result
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return plant


OUTPUT = ("verdict", "outputs", 0)
FAULTS = {
    "an unknown key at the top": set_at("cause", value="fma"),
    "an unknown key in an output": set_at(*OUTPUT, "max_error", value=1.0),
    "an unknown key in a decision": set_at("decisions", samples.FMA, "line", value=3),
    "an unknown verdict class": set_at("verdict", "class", value="worse"),
    "a boolean for an outcome": set_at("causes", 0, "evidence", "alone", value=False),
    "an outcome in small letters": set_at("flags", 0, "outcome", value="pass"),
    "an unknown role": set_at("flags", 0, "role", value="partial"),
    "an unknown kind of fix": set_at("fixes", 0, "kind", value="magic"),
    "an unknown kind of decision": set_at("causes", 0, "decisions", value=["contract:sub@mul"]),
    "a decision without a node": set_at("causes", 0, "decisions", value=["fma:sub"]),
    "an empty set of decisions": set_at("repairs", 0, "decisions", value=[]),
    "a decision twice in a set": set_at("repairs", 0, "decisions", value=[samples.FMA, samples.FMA]),
    "NaN as a bare float": set_at(*OUTPUT, "max_abs", value=float("nan")),
    "infinity as a bare float": set_at(*OUTPUT, "max_rel", value=float("inf")),
    "NaN as a fraction": set_at("repairs", 0, "removed_fraction", value=float("nan")),
    "a fraction above one": set_at("repairs", 0, "removed_fraction", value=1.5),
    "a negative error": set_at(*OUTPUT, "max_abs", value=-1.0),
    "an unknown name of a non-finite number": set_at(*OUTPUT, "max_abs", value="Infinity"),
    "an absolute path": set_at("repro", value="/home/ada/run/repro.py"),
    "an absolute path of Windows": set_at("repro", value="C:\\run\\repro.py"),
    "another schema version": set_at("schema_version", value=2),
    "an exit status that the program never has": set_at("exit_status", value=4),
    "a place that is not a lowering": set_at("places", value=[samples.FMA]),
    "a hook that is off for an unknown kind": set_at("hooks_off", value={"contract": "no reason"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_rejected(fault: str) -> None:
    result = samples.softmax_pair()
    FAULTS[fault](result)
    assert not VALIDATOR.is_valid(result)


@pytest.mark.parametrize("key", SCHEMA["required"])
def test_a_missing_field_is_rejected(key: str) -> None:
    result = samples.softmax_pair()
    del result[key]
    assert not VALIDATOR.is_valid(result)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan"])
def test_a_number_that_is_not_finite_is_a_string(text: str) -> None:
    result = samples.softmax_pair()
    result["verdict"]["outputs"][0]["max_abs"] = text
    VALIDATOR.validate(result)


def test_the_schema_and_the_words_name_the_same_classes_and_backends() -> None:
    definitions = SCHEMA["$defs"]
    assert set(definitions["VerdictPart"]["properties"]["class"]["enum"]) == set(words.CLASS_SENTENCES)
    [backends, _] = definitions["VerdictPart"]["properties"]["first_bad_backend"]["anyOf"]
    assert set(backends["enum"]) == set(words.BACKEND_SENTENCES)


def test_the_docs_explain_every_field_of_the_schema() -> None:
    page = (ROOT / "docs/result-schema.md").read_text()
    names = set(SCHEMA["properties"])
    for definition in SCHEMA["$defs"].values():
        names |= set(definition.get("properties", {}))
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_the_docs_call_those_fields_optional_that_a_result_may_lack() -> None:
    page = (ROOT / "docs/result-schema.md").read_text()
    lacking = set(SCHEMA["properties"]) - set(SCHEMA["required"])
    for definition in SCHEMA["$defs"].values():
        lacking |= set(definition.get("properties", {})) - set(definition.get("required", []))
    rows = set(re.findall(r"^\| `(\w+)` \| [^|]* \| optional: ", page, re.MULTILINE))
    assert rows | {"made_by", "source"} == lacking  # these two stand within another field's row


def test_the_page_of_words_has_the_sentence_of_every_class() -> None:
    page = (ROOT / "docs/words.md").read_text()
    assert [text for text in words.CLASS_SENTENCES.values() if text not in page] == []
