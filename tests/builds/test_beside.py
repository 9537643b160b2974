"""What `minimize --builds` asks; a whole run with it is among the worked cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.options import Options
from bisector.errors import BadOption
from bisector.explain.build_question import of_range

GIVEN = {"builds": None, "index_urls": (), "pytorch_repo": None, "cpu_stubs": False}


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
    assert wire.load(Options, json.loads(json.dumps(wire.dump_command(options)))) == options
