"""A run that is killed goes on where it was, and says the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
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
KILLS = 4
# What may differ between a run and the same run in pieces: times, counts, and the name of its folder.
FREE = ("seconds", "probes", "run")


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


def answer(run: Path) -> dict[str, Any]:
    result = json.loads((run / "result.json").read_text())
    return {name: value for name, value in result.items() if name not in FREE}


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


def test_a_run_killed_again_and_again_gives_the_answer_of_one_that_was_not(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    subprocess.run(command("minimize", str(CASE), "--out", str(whole), "-q"), check=True)
    moments = sorted(random.Random(0).sample(range(1, len(journal(whole))), KILLS))
    arguments = ["minimize", str(CASE), "--out", str(pieces), "-q"]
    for moment in moments:
        process = subprocess.Popen(command(*arguments), start_new_session=True)
        kill_after(process, pieces, moment)
        arguments = ["resume", str(pieces), "-q"]
    subprocess.run(command(*arguments), check=True)
    assert answer(pieces) == answer(whole)
    for told in TOLD:
        told(CASE.parent.name, answer(pieces))
    assert max(times_done(pieces).values()) == 1, "what was answered before a kill is not asked again"
    before = journal(pieces)
    subprocess.run(command("resume", str(pieces), "-q"), check=True)
    assert journal(pieces) == before, "a finished run asks nothing"
