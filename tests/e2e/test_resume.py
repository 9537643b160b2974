"""A run that is killed goes on where it was, and says the same."""

from __future__ import annotations

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

CASE = Path(__file__).parents[2] / "repros" / "fp16_round_trip" / "case.py"
KILLS = 10
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


def kill_after(process: subprocess.Popen[bytes], run: Path, lines: int) -> None:
    """kill -9 once the journal has grown to that many records, if the run has not ended by then."""
    while process.poll() is None and len(journal(run)) < lines:
        with_timeout = 0.05
        try:
            process.wait(timeout=with_timeout)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_run_killed_ten_times_gives_the_answer_of_one_that_was_not(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    subprocess.run(command("minimize", str(CASE), "--out", str(whole), "-q"), check=True)
    records = len(journal(whole))
    moments = sorted(random.Random(0).sample(range(1, records), KILLS))
    arguments = ["minimize", str(CASE), "--out", str(pieces), "-q"]
    for moment in moments:
        process = subprocess.Popen(command(*arguments), start_new_session=True)
        kill_after(process, pieces, moment)
        arguments = ["resume", str(pieces), "-q"]
    subprocess.run(command(*arguments), check=True)
    assert answer(pieces) == answer(whole)
    done = Counter(record["key"] for record in journal(pieces) if record["event"] == "done")
    assert max(done.values()) == 1, "a journalled probe was run again"


def test_resuming_a_finished_run_asks_nothing_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = subprocess.run(command("check", str(CASE), "--out", str(run), "-q"), check=False)
    before = journal(run)
    again = subprocess.run(command("resume", str(run), "-q"), check=False)
    assert again.returncode == first.returncode == 1
    assert journal(run) == before
