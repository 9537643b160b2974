"""Processes for jobs that are files: as many at a time as there is room for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol


class Pool(Protocol):
    """Runs jobs. width: how many at a time."""

    width: int

    def submit(self, request: Path) -> Future[str | None]:
        """Starts a job; the result is why it died, in one line, or None where it came to its end."""

    def close(self) -> None:
        """Ends the jobs that run."""


class LocalPool:
    """Jobs as processes of this machine. command: what runs the job of a request."""

    def __init__(self, width: int, command: Callable[[Path], list[str]]) -> None:
        self.width = width
        self._command = command
        self._threads = ThreadPoolExecutor(width)
        self._processes: set[subprocess.Popen[bytes]] = set()

    def submit(self, request: Path) -> Future[str | None]:
        return self._threads.submit(self._run, request)

    def close(self) -> None:
        for process in list(self._processes):
            process.terminate()
        self._threads.shutdown()

    def _run(self, request: Path) -> str | None:
        with open(request.parent / "job.log", "ab") as log:
            process = subprocess.Popen(
                self._command(request), stdout=log, stderr=log, start_new_session=True
            )
            self._processes.add(process)
            try:
                return ended(process.wait(), request)
            finally:
                self._processes.discard(process)


def ended(status: int, request: Path) -> str | None:
    """Why a job with this exit status died, or None."""
    if status == 0:
        return None
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"its job ended with {how}; see {request.parent / 'job.log'}"
