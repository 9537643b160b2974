"""What users and programs name is printed as it stands: brackets are no markup and `:x:` is no picture."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from bisector.cli import doctor, flags_catalogue
from bisector.cli.display import Display
from bisector.report import sections, terminal
from tests.report import samples

PACKAGE = Path(__file__).parents[2] / "bisector"
TEXTS = ["output[0]", "[bold]x[/bold]", "[/]", "a[/b]", "pip install 'numbisect[builds]'", "a :smile: b"]
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.mark.parametrize("text", TEXTS)
def test_the_doctor_prints_what_it_found_as_it_stands(text: str) -> None:
    page = doctor.table([doctor.Finding(text, text, text)], 120, color=False)
    assert page.splitlines()[1].count(text) == 3


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_the_table_of_flags_prints_names_and_values_as_they_stand(text: str, color: bool) -> None:
    row = {
        "name": text, "family": text, "present": True, "default": 0, "value": text, "implied_by": None,
        "conservative": text, "device": None, "backend": "cpp", "since": text, "performance": False,
        "env": text, "effect": text, "reference": text,
    }  # fmt: skip
    page = ANSI.sub("", flags_catalogue.table([row], 200, color))
    assert page.replace(repr(text), text).count(text) == 8


@pytest.mark.parametrize("text", TEXTS)
def test_a_line_of_progress_is_printed_as_it_stands(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Display(quiet=False, verbose=True, no_color=True, budget_s=None) as display:
        display.tell("verdict", text)
        display.tell("probe", text)
        display.say(text)
        display.console.print(text)
    assert capsys.readouterr().err.count(text) == 4


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_report_prints_what_it_is_given_as_it_stands(text: str, color: bool) -> None:
    page = ANSI.sub("", terminal.render(sections.report(samples.document(_everywhere(text))), 400, color))
    for place in ("run", "repro", "decision", "note", "path", "op", "error"):
        assert f"{place}{text}" in page


def _everywhere(text: str) -> dict[str, Any]:
    """A result in which the text stands wherever a user or a program names something."""
    result = samples.softmax_pair()
    result["run"], result["repro"] = f"run{text}", f"repro{text}"
    result["text_notes"] = [f"note{text}"]
    result["verdict"]["outputs"][0]["path"] = f"path{text}"
    result["verdict"]["reason"] = f"error{text}"
    result["minimal"]["ops"] = [f"op{text}"]
    result["causes"][0]["decisions"] = [f"fma:sub@decision{text}"]
    return result


def test_every_console_of_rich_is_made_in_one_place() -> None:
    makers = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console"
    ]
    assert makers == ["report/literal.py"]
