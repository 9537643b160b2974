"""What is learned on the way, as a terminal and as a program sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from bisector.cli.display import Display

ROOT = Path(__file__).resolve().parents[2]
LINE = json.loads(resources.files("bisector.report").joinpath("lines.schema.json").read_text())


def test_a_program_is_told_each_thing_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(quiet=False, verbose=False, no_color=True, budget_s=None, lines=True) as display:
        display.tell("capture", "running case.py")
        display.tell("probe", "on the whole: 0.1 s")
        display.tell("verdict", "agrees: ")
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [(line["stage"], line["text"], line["probes"]) for line in lines] == [
        ("capture", "running case.py", 0),
        ("verdict", "agrees: ", 1),
    ]
    assert shown.err == "", "nothing is told twice"


def test_a_terminal_that_does_not_know_its_width_is_given_text() -> None:
    ours, theirs = pty.openpty()  # of 0 columns
    command = [sys.executable, "-m", "bisector", "explain", "fma"]
    variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, cwd=ROOT, stdout=theirs, env=variables, check=True)
    os.close(theirs)
    assert b"A product and a sum are rounded once" in os.read(ours, 1 << 16)
    os.close(ours)
    assert done.returncode == 0


@pytest.mark.live
def test_a_run_at_a_terminal_tells_a_program_what_it_learns_and_last_its_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bisector", "check", "repros/fp16_round_trip/case.py"]
    terminal, stderr = pty.openpty()
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run"), "--json-lines"], cwd=ROOT, check=False, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=stderr,
    )  # fmt: skip
    os.close(stderr)
    os.close(terminal)
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        jsonschema.validate(line, LINE)
    assert [line["stage"] for line in lines] == ["capture", "verdict", "result"]
    assert lines[-1]["result"] == json.loads((tmp_path / "run" / "result.json").read_text())
    assert lines[-1]["result"]["graph"]["nodes"], "what was followed for the verdict is shown"
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)
