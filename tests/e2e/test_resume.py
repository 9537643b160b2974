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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.known import TOLD

pytestmark = pytest.mark.slow  # whole runs; tests/faults resumes one by default

CASE = Path(__file__).parents[2] / "repros" / "fp16_round_trip" / "case.py"
KILLS = 10
MIDDLE = 40  # records of the journal: the search is on its way, and its first sets are not known yet
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `minimize` that was killed in the middle of its search, and gone on with to its end."""
    run: Path = tmp_path_factory.mktemp("killed") / "run"
    begun = command("minimize", str(CASE), "--out", str(run), "-q")
    process = subprocess.Popen(begun, start_new_session=True)
    kill_after(process, run, MIDDLE)
    assert process.returncode == -signal.SIGKILL
    assert not (run / "result.json").exists()
    subprocess.run(command("resume", str(run), "-q"), check=True)
    return run


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.__name__)
def test_a_run_killed_in_its_search_goes_on_to_what_is_known_of_the_case(
    killed: Path, told: Callable[..., None]
) -> None:
    told(CASE.parent.name, answer(killed))


def test_nothing_that_was_answered_before_the_kill_is_asked_again(killed: Path) -> None:
    assert max(times_done(killed).values()) == 1


def test_resuming_a_finished_run_asks_nothing_again(killed: Path) -> None:
    before = journal(killed)
    subprocess.run(command("resume", str(killed), "-q"), check=True)
    assert journal(killed) == before


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
    assert max(times_done(pieces).values()) == 1
