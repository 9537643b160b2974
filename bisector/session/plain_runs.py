"""Scripts that numbisect wrote, run as a stranger would: plain Python, in a process and a folder of its own.

What came of a run is journalled, so that a resumed run does not repeat it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector import processes
from bisector.errors import CannotWrite
from bisector.processes import Started
from bisector.runner.journal import Journal, key_of

# Set here: a header that the worker has precompiled may be another's.
_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}
SCRIPT = "SCRIPT"  # among the arguments: where the path of the file stands


@dataclass(frozen=True)
class Ended:
    """status: None where it took too long. said: the first line of its output."""

    status: int | None
    said: str


@dataclass
class PlainRun:
    """A run that was begun, or that the journal knows."""

    key: str
    process: Started | None = None

    def stop(self) -> None:
        """End it; its outcome is not wanted."""
        if self.process is not None:
            self.process.end()


class PlainRuns:
    """Begins such runs and waits for them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def start(self, script: Path, arguments: Sequence[str], **environment: str) -> PlainRun:
        """Run Python with these arguments, in which `script` stands for the path of that file."""
        text = script.read_text(encoding="utf-8")
        told = [str(script) if argument == SCRIPT else argument for argument in arguments]
        digest = hashlib.sha256(text.encode()).hexdigest()
        request = {"job": "plain", "digest": digest, "arguments": [*arguments], "environment": environment}
        key = key_of(request)
        if key in self._journal.answers:
            return PlainRun(key)
        self._journal.started(key, request)
        return PlainRun(key, start(told, **environment))

    def ended(self, run: PlainRun, timeout_s: float) -> Ended:
        """Wait for it. A run that took too long is not remembered: the next one may have more time."""
        if run.process is not None:
            status, said = ended(run.process, timeout_s)
            if status is None:
                return Ended(status, said)
            self._journal.done(run.key, {"status": status, "said": said})
        known = self._journal.answers[run.key]
        return Ended(known["status"], known["said"])


def start(arguments: Sequence[str], **environment: str) -> processes.Started:
    """Begins to run Python, isolated from the environment's Python settings. environment: what is added.

    Raises CannotWrite where there is no temporary folder.
    """
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise CannotWrite("no folder for temporary files can be written; make room, or set TMPDIR") from error
    return processes.start(
        [sys.executable, "-I", *arguments],
        folder=folder,
        environment={**os.environ, **_HEADERS, **environment},
        capture=True,
    )


def ended(process: processes.Started, timeout_s: float) -> tuple[int | None, str]:
    """The exit status and the first line that it said; None for one that took longer and was ended."""
    done = process.wait(timeout_s)
    if done.status is None:
        return None, f"no answer after {timeout_s:g} s"
    lines = (done.out.strip() or done.err.strip()).splitlines()
    return done.status, lines[0] if lines else ""
