"""Processes for jobs that are files: as many at a time as there is room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bisector import processes, wire
from bisector.core.endings import Ending
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.core.progress import LookedAt, Progress

from ..run import Clock
from .failure import Looked, clustered
from .store import Store

ALIKE = 0.5  # from here on two failures more likely have one cause than two


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
        self._processes: set[processes.Started] = set()

    def submit(self, request: Path) -> Future[str | None]:
        return self._threads.submit(self._run, request)

    def close(self) -> None:
        for process in list(self._processes):
            process.end()
        self._threads.shutdown(cancel_futures=True)

    def _run(self, request: Path) -> str | None:
        return run_job(self._command(request), request, self._processes)


def job_command(request: Path) -> list[str]:
    """What runs the job of a request as a process of its own."""
    return processes.module("bisector.cli.triage_job", str(request))


def run_job(command: Sequence[str], request: Path, running: set[processes.Started]) -> str | None:
    """Runs a job to its end; returns why it died, or None. running: the process is in it meanwhile."""
    with open(request.parent / "job.log", "ab") as log:
        process = processes.start(command, log=log)
        running.add(process)
        try:
            status = process.wait(None).status  # a job keeps its own limits
            return None if status is None else ended(status, request)
        finally:
            running.discard(process)


def ended(status: int, request: Path) -> str | None:
    """Why a job with this exit status died, or None."""
    if status == 0:
        return None
    return f"its job ended with {processes.how_it_ended(status)}; see {request.parent / 'job.log'}"


@dataclass
class Triage:
    """Drives the jobs of one store. options: of one failure, without its target. clock: its budget is that of
    all jobs together; none is started after it, and those that run then end with what they have."""

    store: Store
    pool: Pool
    options: Options
    progress: Progress
    clock: Clock = field(default_factory=lambda: Clock(None))
    running: dict[Future[str | None], Looked] = field(default_factory=dict)

    def work(self, waiting: Sequence[Looked]) -> Ending | None:
        """A cheap verdict of each failure that has none, then the cause of each that diverges. Returns why it
        ended early, or None."""
        pending = [one for one in waiting if not one.signature and not one.explained]
        stopped = self._each(pending, lambda left: left[0], "check")
        if stopped is not None:
            return stopped
        judged = [self.store.read(one.id) for one in waiting]
        diverging = [one for one in judged if one.outcome is Outcome.FAIL and not one.explained]
        return self._each(diverging, self._next, "minimize")

    def _each(
        self, pending: list[Looked], choose: Callable[[list[Looked]], Looked | None], command: str
    ) -> Ending | None:
        left = list(pending)
        while left or self.running:
            stopped = self.clock.exhausted()
            while left and stopped is None and len(self.running) < self.pool.width:
                chosen = choose(left)
                if chosen is None:
                    break
                left.remove(chosen)
                self._start(chosen, command)
            if not self.running:
                return stopped
            done, _ = wait(self.running, return_when=FIRST_COMPLETED)
            for future in done:
                self._ended(self.running.pop(future), future, command)
        return None

    def _next(self, left: list[Looked]) -> Looked | None:
        """The one that is least like those that are explained: it may open a cluster. One that is like a
        running one waits: what is found there may explain it in two probes."""
        running = list(self.running.values())
        explained = [one for one in self.store.known().values() if one.explained]
        free = [one for one in left if all(one.likeness(other) < ALIKE for other in running)]
        return min(free, key=lambda one: (_nearest(one, [*explained, *running]), one.id), default=None)

    def _start(self, looked: Looked, command: str) -> None:
        known = [cluster.cause.to_json() for cluster in clustered(self.store.known().values())]
        left = self.clock.left_s()
        options = replace(self.options, target=looked.target, command=command, budget_s=left)
        asked: Mapping[str, Any] = {"known": known, "options": wire.dump_command(options)}
        request = self.store.request(looked, asked)
        self.running[self.pool.submit(request)] = looked

    def _ended(self, before: Looked, future: Future[str | None], command: str) -> None:
        problem = future.result()
        looked = self.store.read(before.id)
        if looked == before or problem is not None:
            looked = self._failed(before, problem or "its job left nothing")
        name = Path(looked.target).name
        result = looked.cause.key if looked.cause else looked.problem or looked.verdict
        self.progress("check" if command == "check" else "cause", LookedAt(name, result))

    def _failed(self, before: Looked, problem: str) -> Looked:
        """The job itself died: that is no verdict."""
        raw = before.to_json() | {"problem": problem, "explained": True}
        self.store.write(self.store.failures / before.id / "failure.json", raw)
        return Looked.from_json(raw)


def _nearest(one: Looked, others: Sequence[Looked]) -> float:
    return max((one.likeness(other) for other in others), default=0.0)


def now() -> str:
    """UTC, as files tell it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
