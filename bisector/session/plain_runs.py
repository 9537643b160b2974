"""Scripts that numbisect wrote, run as a stranger would: plain Python, in a process and a folder of its own.

What came of a run is journalled, so that a resumed run does not repeat it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.processes import Started
from bisector.runner.journal import Journal, key_of

from . import plain_python


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
        return PlainRun(key, plain_python.start(told, **environment))

    def ended(self, run: PlainRun, timeout_s: float) -> Ended:
        """Wait for it. A run that took too long is not remembered: the next one may have more time."""
        if run.process is not None:
            status, said = plain_python.ended(run.process, timeout_s)
            if status is None:
                return Ended(status, said)
            self._journal.done(run.key, {"status": status, "said": said})
        known = self._journal.answers[run.key]
        return Ended(known["status"], known["said"])


SCRIPT = "SCRIPT"  # among the arguments: where the path of the file stands
