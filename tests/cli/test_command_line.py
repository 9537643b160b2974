"""Options of a run as data: what a file of a run holds comes back as it was."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bisector import wire
from bisector.cli.command_line import parse_setting
from bisector.cli.main import main
from bisector.core.options import Against, Options, Question

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
_SETTINGS = st.dictionaries(st.text(min_size=1), _JSON, max_size=3)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_TOLERANCES = st.dictionaries(st.text(min_size=1), st.tuples(_FINITE, _FINITE), max_size=3)
_QUESTIONS = st.builds(
    Question,
    st.text(),
    good=st.sampled_from(["2.11.0", "2.12.0"]),
    bad=st.just("2.13.0"),
    looked_for=st.sampled_from(["introduced", "fixed"]),
    index_urls=st.lists(st.text(), max_size=3).map(tuple),
    repeat=st.integers(1, 9),
    timeout_s=_FINITE,
    budget_s=st.none() | _FINITE,
    cache_bytes=st.integers(0),
    prefetch=st.integers(0, 9),
)


def _options() -> st.SearchStrategy[Options]:
    """Every field, by its type; those that Hypothesis cannot tell from it are named."""
    return st.builds(
        Options,
        **{name: st.from_type(kind) for name, kind in _plain_fields().items()},
        tolerances=st.none() | _TOLERANCES,
        config=_SETTINGS,
        against=st.none() | st.builds(Against, st.text(), _SETTINGS),
        builds=st.none() | _QUESTIONS,
    )


def _plain_fields() -> dict[str, Any]:
    named = {"tolerances", "config", "against", "builds"}
    return {name: kind for name, kind in get_type_hints(Options).items() if name not in named}


def _is_finite(options: Options) -> bool:
    return all(math.isfinite(value) for value in vars(options).values() if isinstance(value, float))


@given(options=_options().filter(_is_finite))
def test_options_come_back_from_a_file_as_they_were(options: Options) -> None:
    assert wire.load(Options, json.loads(json.dumps(wire.dump_command(options)))) == options


@given(question=_QUESTIONS)
def test_a_question_about_builds_comes_back_from_a_file_as_it_was(question: Question) -> None:
    raw = json.loads(json.dumps(wire.dump_command(question)))
    assert raw["command"] == "builds", "by which `resume` knows what it goes on with"
    assert wire.load(Question, raw) == question


@given(text=st.text())
def test_the_value_of_a_setting_is_one_that_json_can_hold(text: str) -> None:
    setting = parse_setting(f"name={text}")
    assert setting is not None
    assert json.loads(json.dumps(setting[1], allow_nan=False)) == setting[1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("None", None), ("1e-3", 1e-3), ("(1, 2)", [1, 2]), ("off", "off"),
        ("b'x'", "b'x'"), ("{1, 2}", "{1, 2}"), ("1e999", "1e999"),
    ],
)  # fmt: skip
def test_a_setting_reads_as_python_or_json_writes_it(text: str, value: Any) -> None:
    assert parse_setting(f"a={text}") == ("inductor.a", value)


@pytest.mark.parametrize(
    "given",
    [
        (option, value)
        for option in ("--rtol", "--atol", "--cosine", "--timeout", "--budget")
        for value in ("inf", "nan", "-inf", "-1")
    ]
    + [("--cosine", "1.5"), ("--cosine", "-2"), ("--max-ulp", "-1"), ("--max-ulp", "nan")],
    ids=" ".join,
)
def test_a_number_that_nothing_can_be_held_to_is_refused_in_a_line(
    given: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("")
    told = CliRunner().invoke(main, ["check", str(tmp_path / "script.py"), *given])
    assert told.exit_code == 2
    last = told.output.splitlines()[-1]
    assert last.startswith(f"Error: Invalid value for '{given[0]}': "), last


def test_who_gives_a_number_that_is_none_is_told_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("")
    told = CliRunner().invoke(main, ["check", str(tmp_path / "script.py"), "--cosine", "nan"])
    assert told.output.splitlines()[-1].endswith("nan: write a finite number in the range 0<=x<=1.")


def test_a_shell_is_told_how_to_complete() -> None:
    program = Path(sys.executable).with_name("numbisect")
    words = {"COMP_WORDS": "numbisect mini", "COMP_CWORD": "1", "_NUMBISECT_COMPLETE": "bash_complete"}
    done = subprocess.run([program], env={**os.environ, **words}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,minimize"]
    words["_NUMBISECT_COMPLETE"] = "bash_source"
    done = subprocess.run([program], env={**os.environ, **words}, capture_output=True, text=True, check=True)
    assert "complete" in done.stdout and "numbisect" in done.stdout
