"""What ends a command that has no answer: one line, a status that is no answer, and a crash file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bisector.cli import commands
from bisector.cli import main as cli
from bisector.core.budget import BudgetSpent
from bisector.core.endings import SecondsSpent
from bisector.errors import BadTarget, CannotWrite, MissingTool, NumbisectError, OutOfTime, WorkerLost
from bisector.runner import rundir

OWN: list[BaseException] = [
    ValueError("a\nb"),
    MemoryError(),
    RecursionError("too deep"),
    OSError(errno.EFBIG, "File too large"),
    OSError(errno.ENOSPC, "No space left on device", "/run/file"),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
    SystemExit(1),
    KeyError("calls"),
]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Runs a command whose work ends with this error; returns the exit status."""
    monkeypatch.setattr(rundir, "_current", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def run(error: BaseException, command: str = "check", run_directory: Path | None = None) -> int:
        def work(*given: Any) -> int:
            if run_directory is not None:
                rundir.create("case.py", str(run_directory), {})
            raise error

        monkeypatch.setattr(commands, "probing", work)
        monkeypatch.setattr(sys, "argv", ["numbisect", command, "case.py"])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert isinstance(left.value.code, int)
        return left.value.code

    return run


@pytest.mark.parametrize(("command", "status"), [("check", 125), ("minimize", 3)])
def test_files_that_cannot_be_opened_are_told_in_a_line_without_a_crash_file(
    command: str, status: int, ended: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(OSError(errno.EMFILE, "Too many open files"), command) == status
    assert capsys.readouterr().err == (
        "numbisect: no further file can be opened; raise the limit (`ulimit -n`)\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("command", "status"), [("check", 125), ("minimize", 3), ("flags", 3)])
def test_an_error_of_our_own_is_no_answer_and_names_a_crash_file(
    error: BaseException,
    command: str,
    status: int,
    ended: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command == "flags":
        monkeypatch.setattr(commands, "walk_flags", lambda target, given: commands.probing())
    assert ended(error, command) == status
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    [file] = tmp_path.glob("numbisect-crash-*.txt")
    assert str(file) in said
    text = file.read_text()
    assert "Traceback" in text
    assert type(error).__name__ in text
    assert f"command: numbisect {command} case.py" in text


def test_a_crash_file_lies_in_the_run_directory_with_the_ends_of_journal_and_log(
    ended: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "journal.jsonl").write_text("")
    (run / "worker.log").write_text("".join(f"line {n}\n" for n in range(100)))
    assert ended(ValueError("oops"), run_directory=run) == 125
    [file] = run.glob("crash-*.txt")
    assert str(file) in capsys.readouterr().err
    text = file.read_text()
    assert "line 99\n" in text
    assert "line 10\n" not in text
    assert "torch 2" in text


def test_where_no_crash_file_can_be_written_the_line_says_so_and_the_traceback_is_printed(
    ended: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert ended(ValueError("oops")) == 125
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("Traceback")
    assert said[-1].endswith("could be written (No such file or directory), so the details are above")


@pytest.mark.parametrize(
    ("error", "check", "minimize"),
    [
        (BadTarget("no script"), 2, 2),
        (MissingTool("no g++"), 125, 2),
        (CannotWrite("disk full"), 125, 3),
        (WorkerLost("it died"), 125, 3),
        (OutOfTime("too slow"), 125, 3),
        (BudgetSpent(SecondsSpent(8)), 125, 3),
        (KeyboardInterrupt(), 130, 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_expected_error_has_its_status_and_leaves_no_crash_file(
    error: NumbisectError,
    check: int,
    minimize: int,
    ended: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert (ended(error, "check"), ended(error, "minimize")) == (check, minimize)
    assert capsys.readouterr().err.count("\n") == 2
    assert not list(tmp_path.iterdir())


def numbisect(*arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bisector", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **given)


@pytest.fixture
def no_reader() -> int:
    """A pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("--version",)])
def test_help_that_nobody_reads_to_its_end_is_no_error(arguments: tuple[str, ...], no_reader: int) -> None:
    done = numbisect(*arguments, stdout=no_reader)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_answer_that_nobody_reads_keeps_its_status(no_reader: int) -> None:
    done = numbisect("flags", stdout=no_reader)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_answer_that_does_not_fit_on_the_disk_is_told_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = numbisect("flags", stdout=full)
    assert done.returncode == 3
    assert done.stderr.startswith("numbisect: stdout: No space left on device; ")
    assert done.stderr.count("\n") == 1


def test_closed_streams_are_no_error() -> None:
    command = f"{sys.executable} -m bisector check /nowhere.py >&- 2>&- <&-"
    assert subprocess.run(command, shell=True, check=False).returncode == 2
