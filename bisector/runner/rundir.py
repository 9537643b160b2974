"""The run directory: one folder for one invocation, and nothing anywhere else."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..core.own_folders import NEIGHBOUR, PAGE, REPRO, RUN_OPTIONS, TEST
from ..errors import BadOption, BadTarget, CannotWrite

RUNS = "numbisect-runs"
WITHIN = "call-"  # begins the name of a run within a run
SCRIPT = "script.txt"
# What a folder that could be written may give at any later moment: another --out is no answer to it.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@dataclass(frozen=True)
class RunDirectory:
    """Paths of the parts of a run. `options.json` holds what resume needs to start again."""

    path: Path

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def repro(self) -> Path:
        return self.path / REPRO

    def repro_text(self) -> str | None:
        return self.repro.read_text(encoding="utf-8") if self.repro.exists() else None

    @property
    def script(self) -> Path:
        """The text of the target as it was, in UTF-8, if it is a script; to be read, not to be run."""
        return self.path / SCRIPT

    def script_text(self) -> str | None:
        return self.script.read_text(encoding="utf-8") if self.script.exists() else None

    @property
    def test(self) -> Path:
        return self.path / TEST

    @property
    def neighbour(self) -> Path:
        """How the code of the minimal case differs from that of the nearest case that agrees."""
        return self.path / NEIGHBOUR

    @property
    def page(self) -> Path:
        return self.path / PAGE

    @property
    def markdown(self) -> Path:
        return self.path / "report.md"

    @property
    def log(self) -> Path:
        return self.path / "worker.log"

    @property
    def choices(self) -> Path:
        """What was chosen by timing on a GPU, for the probes that follow."""
        return self.path / "autotuned.jsonl"

    @property
    def options(self) -> Path:
        return self.path / RUN_OPTIONS

    def start_over(self) -> None:
        """Remove what a run left but its options: what it found was about something else. Raises BadTarget
        where the run still goes on."""
        with contextlib.suppress(FileNotFoundError), self.journal.open("rb") as held:
            lock(held, self.journal)
        texts = (self.script, self.repro, self.test, self.neighbour, self.markdown, self.page)
        for file in (self.journal, self.result, *texts, self.choices):
            file.unlink(missing_ok=True)
        for inner in self.path.glob(f"{WITHIN}*/{self.options.name}"):
            shutil.rmtree(inner.parent)

    def write_json(self, path: Path, value: Any) -> None:
        """Write a JSON file of the run, as `write_text` does."""
        self.write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_text(self, path: Path, text: str) -> None:
        """Write a file of the run whole or not at all: under another name, then moved. Raises CannotWrite."""
        unfinished = path.with_name(f"{path.name}.new")
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        except OSError as error:
            raise self.cannot_write(path, error) from error

    def cannot_write(self, path: Path, error: OSError) -> CannotWrite:
        """The error that tells the user why a file of the run cannot be written, and what to do."""
        do = "make room there" if error.errno in NO_ROOM else "make it writable"
        return CannotWrite(f"{path}: {error.strerror}; {do} and go on with `numbisect resume {self.path}`")


def lock(journal: BinaryIO, path: Path) -> None:
    """Keep a run to this process: two that append to one journal would tear each other's lines. Raises
    BadTarget where another one has it, after closing the file."""
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        journal.close()
        problem = f"{path.parent}: another numbisect is at work in this run; wait for it to end"
        raise BadTarget(problem) from error
    except OSError:
        return  # a file system without locks: go on as if alone


_current: RunDirectory | None = None


def current_run() -> RunDirectory | None:
    """The run of this process, once it has been made or opened again: there crash files go."""
    return _current


def _made_current(run: RunDirectory) -> RunDirectory:
    global _current
    _current = run
    return run


def create(target: str, out: str | None, options: Mapping[str, Any]) -> RunDirectory:
    """A new run directory, or the named one if it is empty or its run got nowhere.

    Raises BadOption when it cannot be written, CannotWrite when there is no room in it.
    """
    path = Path(out) if out else Path(RUNS)
    try:
        if out:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path = _next_free(path, Path(target).stem)
        if any(path.iterdir()) and not _ended_before_it_began(path):
            raise BadOption(f"{path}: not empty; name another --out, or go on with `numbisect resume {path}`")
        run = _made_current(RunDirectory(path.resolve()))
        run.start_over()
        run.write_json(run.options, dict(options))
    except OSError as error:
        if error.errno in NO_ROOM:
            raise CannotWrite(f"{path}: {error.strerror}; make room there and run again") from error
        problem = f"{path}: {error.strerror or error}; name a folder you can write with --out"
        raise BadOption(problem) from error
    return run


def within(run: RunDirectory, call: int, options: Mapping[str, Any]) -> RunDirectory:
    """The run of another call, in a folder of the run; what it found before is still there. Raises
    CannotWrite."""
    inner = _made_current(RunDirectory(run.path / f"{WITHIN}{call}"))
    try:
        inner.path.mkdir(exist_ok=True)
    except OSError as error:
        raise run.cannot_write(inner.path, error) from error
    inner.write_json(inner.options, dict(options))
    return inner


def _ended_before_it_began(path: Path) -> bool:
    """Whether the folder holds a run without a single answer: a mistake in its target or its options."""
    journal = RunDirectory(path).journal
    known = {"journal.jsonl", RUN_OPTIONS, f"{RUN_OPTIONS}.new", SCRIPT, "worker.log", "autotuned.jsonl"}
    if not {p.name for p in path.iterdir() if not p.match("crash-*.txt")} <= known:
        return False
    return not journal.exists() or '"event": "done"' not in journal.read_text()


def reopen(path: str) -> tuple[RunDirectory, dict[str, Any]]:
    """An earlier run and its options. Raises BadTarget when the folder holds none."""
    run = RunDirectory(Path(path).resolve())
    try:
        return _made_current(run), json.loads(run.options.read_text())
    except (OSError, ValueError) as error:
        raise BadTarget(f"{path}: no run of numbisect here; name the folder that --out made") from error


def _next_free(parent: Path, stem: str) -> Path:
    """Make the first folder `STEM-N` that is not there yet; two runs that start at once get two."""
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / f"{stem}-{number}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1  # an earlier run, or one that was faster
        else:
            return path
