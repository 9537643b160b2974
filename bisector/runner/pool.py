"""Processes for jobs that are files: as many at a time as there is room for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from ..processes import Started, how_it_ended, start


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
        self._processes: set[Started] = set()

    def submit(self, request: Path) -> Future[str | None]:
        return self._threads.submit(self._run, request)

    def close(self) -> None:
        for process in list(self._processes):
            process.end()
        self._threads.shutdown(cancel_futures=True)

    def _run(self, request: Path) -> str | None:
        with open(request.parent / "job.log", "ab") as log:
            process = start(self._command(request), log=log)
            self._processes.add(process)
            try:
                status = process.wait(None).status  # a job keeps its own limits
                return None if status is None else ended(status, request)
            finally:
                self._processes.discard(process)


def ended(status: int, request: Path) -> str | None:
    """Why a job with this exit status died, or None."""
    if status == 0:
        return None
    return f"its job ended with {how_it_ended(status)}; see {request.parent / 'job.log'}"
