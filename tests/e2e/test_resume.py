"""A run that is killed goes on where it was, and says the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.known import TOLD

pytestmark = pytest.mark.live

CASE = Path(__file__).parents[2] / "repros" / "fp16_round_trip" / "case.py"
MOMENTS = (3, 20, 60)  # records of the journal: the capture, the verdict, the search


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bisector", *arguments]


def journal(run: Path) -> list[dict[str, Any]]:
    """The records of a run; a line that a kill cut short is none."""
    records = []
    path = run / "journal.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def times_done(run: Path) -> Counter[str]:
    """How often each question of the journal was answered."""
    return Counter(record["key"] for record in journal(run) if record["event"] == "done")


def kill_after(process: subprocess.Popen[bytes], run: Path, lines: int) -> None:
    """kill -9 once the journal has grown to that many records, if the run has not ended by then."""
    while process.poll() is None and len(journal(run)) < lines:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_run_that_is_killed_again_and_again_comes_to_its_answer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["minimize", str(CASE), "--out", str(run), "-q"]
    for moment in MOMENTS:
        kill_after(subprocess.Popen(command(*arguments), start_new_session=True), run, moment)
        arguments = ["resume", str(run), "-q"]
    assert not (run / "result.json").exists()
    subprocess.run(command(*arguments), check=True)
    for told in TOLD:
        told(CASE.parent.name, json.loads((run / "result.json").read_text()))
    assert max(times_done(run).values()) == 1, "what was answered before a kill is not asked again"
    before = journal(run)
    subprocess.run(command("resume", str(run), "-q"), check=True)
    assert journal(run) == before, "a finished run asks nothing"
