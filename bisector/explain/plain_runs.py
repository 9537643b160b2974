"""Scripts that numbisect wrote, run as a stranger would: plain Python, in a process and a folder of its own.

What came of a run is journalled, so that a resumed run does not repeat it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector import processes
from bisector.errors import CannotWrite
from bisector.processes import Started
from bisector.runner.journal import Journal, key_of
from bisector.tracing import SILENT, Trace

from . import environment

# Set here: a header that the worker has precompiled may be another's.
_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}
SCRIPT = "SCRIPT"  # among the arguments: where the path of the file stands


@dataclass(frozen=True)
class ScriptEnd:
    """status: None where it took too long. first_line: the first line of its output."""

    status: int | None
    first_line: str


@dataclass
class PendingRun:
    """A run that was begun, or that the journal knows."""

    key: str
    process: Started | None = None
    begun_s: float = 0.0

    def stop(self) -> None:
        """End it; its outcome is not wanted."""
        if self.process is not None:
            self.process.end()


class PlainRuns:
    """Begins such runs and waits for them."""

    def __init__(self, journal: Journal, trace: Trace = SILENT) -> None:
        self._journal = journal
        self._trace = trace

    def start(self, script: Path, arguments: Sequence[str], **variables: str) -> PendingRun:
        """Run Python with these arguments, in which `script` stands for the path of that file."""
        with_path = [str(script) if argument == SCRIPT else argument for argument in arguments]
        digest = hashlib.sha256(script.read_bytes()).hexdigest()
        request = {"job": "plain", "digest": digest, "arguments": [*arguments], "environment": variables}
        key = key_of(request)
        if key in self._journal.answers:
            return PendingRun(key)
        self._journal.started(key, request)
        return PendingRun(key, start(with_path, **variables), time.monotonic())

    def ended(self, run: PendingRun, timeout_s: float) -> ScriptEnd:
        """Wait for it. A run that took too long is not remembered: the next one may have more time.

        Raises NumbisectError where the machine lacks what it needs: that says nothing of the script.
        """
        if run.process is not None:
            done = run.process.wait(timeout_s)
            self._trace.span("plain runs", "a script that was written", run.begun_s)
            if done.status is None:
                return ScriptEnd(None, f"no answer after {timeout_s:g} s")
            environment.doubts(done.out + done.err)
            lines = (done.out.strip() or done.err.strip()).splitlines()
            self._journal.done(run.key, {"status": done.status, "said": lines[0] if lines else ""})
        known = self._journal.answers[run.key]
        return ScriptEnd(known["status"], known["said"])


def start(arguments: Sequence[str], **variables: str) -> processes.Started:
    """Begins to run Python, isolated from the environment's Python settings.

    variables: what is added to the environment. Raises CannotWrite where there is no temporary folder.
    """
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise CannotWrite("no folder for temporary files can be written; make room, or set TMPDIR") from error
    return processes.start(
        [sys.executable, "-I", *arguments],
        folder=folder,
        environment={**os.environ, **_HEADERS, **variables},
        capture=True,
    )

