"""Builds beside a reduction: `minimize --builds`, with the real reduction and wheels that are tiny."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bisector.errors import BadOption
from bisector.session.builds.command import of_range
from bisector.session.options import Options
from tests.builds.fake_index import FakeIndex, served

SCHEMA = Path(__file__).parents[2] / "bisector/report/result.schema.json"
CASE = Path(__file__).parents[2] / "repros/fp16_round_trip/case.py"

GIVEN = {"builds": None, "index_urls": (), "pytorch_repo": None, "cpu_stubs": False}

# A module of the name that a repro imports, in which nothing compiled ever differs, or all of it does.
INIT = """
import sys
from . import version
from .version import __version__

sys.exit({status})
"""


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("2.10..2.12", "2.10", "2.12"),
        ("2.10..", "2.10", "installed"),
        ("..2.12", None, "2.12"),
        ("..", None, "installed"),
    ],
)
def test_a_range_has_two_ends_that_can_be_left_out(text: str, good: str | None, bad: str) -> None:
    asked = of_range(GIVEN | {"builds": text})
    assert asked is not None
    assert (asked.good, asked.bad) == (good, bad)


@pytest.mark.parametrize("text", ["2.10", "2.10-2.12", "soon..2.12", "2.12..2.12.0"])
def test_what_is_no_range_is_said_before_anything_runs(text: str) -> None:
    with pytest.raises(BadOption):
        of_range(GIVEN | {"builds": text})


@pytest.mark.parametrize(
    "given", [{"index_urls": ("https://index.example",)}, {"pytorch_repo": "clone"}, {"cpu_stubs": True}]
)
def test_where_builds_are_means_nothing_where_none_is_asked(given: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=r"--builds GOOD\.\.BAD"):
        of_range(GIVEN | given)


def test_what_is_asked_of_builds_is_read_back_from_the_run(tmp_path: Path) -> None:
    where = {"index_urls": ("one", "two"), "pytorch_repo": str(tmp_path)}
    asked = of_range(GIVEN | {"builds": "2.10.."} | where)
    options = Options("case.py", builds=asked)
    assert Options.from_json(json.loads(json.dumps(options.to_json()))) == options


def test_the_builds_of_the_repro_stand_in_the_report_of_the_reduction(
    tmp_path: Path,
) -> None:
    index = FakeIndex(tmp_path / "simple")
    for version, status in (("2.10.0", 0), ("2.11.0", 1), ("2.12.0", 1)):
        index.add(version, init=INIT.format(status=status))
    with served(index.folder) as url:
        command = [sys.executable, "-m", "bisector", "minimize", str(CASE), "--builds", "2.10..2.12"]
        command += ["--index-url", url]
        done = subprocess.run(
            [*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(result)
    assert (result["builds"]["before"]["name"], result["builds"]["after"]["name"]) == ("2.10.0", "2.11.0")
    sentence = "The divergence is turned on after 2.10.0 and by 2.11.0"
    assert sentence in " ".join(done.stdout.split())
    assert sentence in (tmp_path / "run" / "report.md").read_text()
    assert result["seconds"]["builds"] > 0
