"""Faults at moments of a real run: none gives a status that is an answer, none leaves a process behind, and
`resume` gives the answer afterwards. `python -m tests.faults.table` prints all of them.
"""

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

from tests.faults.inject import CAPTURE, SEARCH
from tests.faults.table import Ground, Place, python, variables
from tests.replay.recording import confirmed
from tests.scripts.folded import CAUSE, FOLDED

# exit status and words of the line of `numbisect check`, with the fault while the script is about to run
QUICK = {
    "kill -9 of the worker": (125, "was ended by signal 9 (SIGKILL)"),
    "JSON of another kind on the channel": (125, "what is no message"),
    "kill -9 of numbisect": (-9, ""),
    "SIGTERM": (-15, ""),
    "Ctrl-C": (130, "interrupted; go on with: numbisect resume"),
    "an error of numbisect's own": (125, "KeyError: 'outputs'; "),
    "files may have 1 byte": (125, "File too large; make room there and go on with `numbisect resume"),
    "the script kills its parent": (-9, ""),
    "no C++ compiler": (125, "install g++ or set CXX to yours"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ground")
    made.chmod(0o755)
    return made


# Alike to others that stay: a worker that is killed is resumed below, what a worker may say and how what
# was started ends with us are asked of small programs in test_worker and test_processes.
ALIKE = (
    "kill -9 of the worker",
    "JSON of another kind on the channel",
    "the script kills its parent",
    "SIGTERM",
)
FAULTS = [pytest.param(fault, marks=pytest.mark.live if fault in ALIKE else ()) for fault in QUICK]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_before_the_capture_ends_is_no_answer_and_leaves_no_process(fault: str, folder: Path) -> None:
    ground = Ground(folder)
    with Place(ground, fault, CAPTURE) as place:
        done = place.struck()
        status, words = QUICK[fault]
        assert done.returncode == status, done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == bool(words)
        assert place.left() == []


MOMENTS = (20, 60)  # records of the journal: the verdict, the search


def journal(run: Path) -> list[dict[str, Any]]:
    """The records of a run; a line that a kill cut short is none."""
    records = []
    path = run / "journal.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def answers(run: Path) -> Counter[str]:
    """How often each question of a run was answered."""
    return Counter(record["key"] for record in journal(run) if record["event"] == "done")


def kill_after(command: list[str], run: Path, lines: int) -> None:
    """kill -9 once the journal has grown to that many records, if the run has not ended by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bisector", *command], env=variables(), start_new_session=True
    )
    while process.poll() is None and len(journal(run)) < lines:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.live
def test_a_run_that_is_killed_interrupted_and_killed_comes_to_its_answer(folder: Path) -> None:
    ground, run, script = Ground(folder), folder / "folded", folder / "folded.py"
    script.write_text(FOLDED)
    kill_after(["minimize", str(script), "--no-minimize", "--out", str(run), "-q"], run, MOMENTS[0])
    with Place(ground, "Ctrl-C", SEARCH) as place:
        done = place.done(["resume", str(run), "-q"])
        assert done.returncode == 130, done.stderr
        assert done.stderr.startswith("[") and "interrupted; go on with: numbisect resume" in done.stderr
        assert "Verdict  compiled-worse" in done.stdout
        assert "Stopped early: it was interrupted. This is the answer so far." in done.stdout
        assert "no decisions are known" not in done.stdout, "the search was not at its end"
        assert ground.given(run)["exit_status"] == 130
        assert place.left() == []
    (run / "result.json").unlink()
    kill_after(["resume", str(run), "-q"], run, MOMENTS[1])
    assert not (run / "result.json").exists()
    ended = python("-m", "bisector", "resume", str(run), "-q", folder=folder)
    assert ended.returncode == 0, ended.stdout
    result, answered = json.loads((run / "result.json").read_text()), answers(run)
    assert result["verdict"]["class"] == "compiled-worse"
    assert confirmed(result["causes"]) == [[CAUSE]]
    assert max(answered.values()) == 1, "what was answered before is not asked again"
    assert python("-m", "bisector", "resume", str(run), "-q", folder=folder).returncode == 0
    assert answers(run) == answered, "a finished run waits for no answer"


@pytest.mark.live
def test_a_script_that_never_ends_has_the_time_that_it_is_given(folder: Path) -> None:
    (folder / "loop.py").write_text("while True:\n    pass\n")
    arguments = ["check", "loop.py", "--out", "loop", "-q", "--timeout", "2", "--budget", "60"]
    done = python("-m", "bisector", *arguments, folder=folder)
    assert done.returncode == 125
    assert done.stderr.startswith("numbisect: loop.py called nothing compiled within 2 s; ")
    assert done.stderr.count("\n") == 1


def test_a_run_whose_worker_was_killed_is_resumed_to_its_answer(folder: Path) -> None:
    ground = Ground(folder)
    with Place(ground, "kill -9 of the worker", CAPTURE) as place:
        struck = place.struck()
        assert struck.returncode == 125
        assert QUICK["kill -9 of the worker"][1] in struck.stderr
        assert place.left() == []
        again = place.resumed()
        assert again.returncode == 1, again.stderr
        assert ground.given(place.run)["verdict"]["class"] == "elided-rounding"
