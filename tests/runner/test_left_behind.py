"""What a run leaves in the temporary folder: a crash file whose name nobody guesses, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bisector.runner import crash

ROOT = Path(__file__).parents[2]
# Makes a folder for values, says where, and then does what the format is given.
OWNER = """
import os, signal
from bisector import processes
folder = processes.temporary_folder()
(folder / "in").mkdir()
(folder / "in" / "values.pt").write_bytes(b"1")
print(folder, flush=True)
{then}
"""


def test_a_crash_file_in_the_temporary_folder_follows_no_link_that_somebody_laid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("time.strftime", lambda *form: "crash-20261126T120000.txt")
    monkeypatch.setattr(crash, "current_run", lambda: None)
    (tmp_path / "victim").write_text("mine\n")
    (tmp_path / "numbisect-crash-20261126T120000.txt").symlink_to(tmp_path / "victim")
    one, other = (crash.write(ValueError("oops"), ["check", "case.py"]) for _ in range(2))
    assert (tmp_path / "victim").read_text() == "mine\n"
    assert one != other, "its name cannot be guessed"
    assert one.match("numbisect-crash-*.txt") and one.parent == tmp_path
    assert "ValueError: oops" in one.read_text()
    assert one.stat().st_mode & 0o077 == 0, "it has the ends of the journal and of the log"


@pytest.mark.parametrize("then", ["", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"])
def test_values_in_a_temporary_folder_do_not_outlive_the_process_however_it_ends(
    then: str, tmp_path: Path
) -> None:
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", OWNER.format(then=then)],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL, -signal.SIGABRT), done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    until = time.monotonic() + 30
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()
