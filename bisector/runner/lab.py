"""Where questions about the subject are asked: journal first, worker if needed, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import WorkerLost
from .journal import Journal, key_of
from .worker import Worker, WorkerOptions

# A worker that dies is started again; one that dies this often in a row is not worth another start.
RESTARTS = 3

LOST: Mapping[str, Any] = {"error": "crash: the worker process died, more than once"}


class Lab:
    """Answers requests (`{"job": …}`) with the worker's JSON, or `{"error": reason}`.

    The worker starts when the first question is not in the journal, so that a resumed run that needs no
    more probes never starts one. `name` tells apart labs that share a journal. `on_answer(request, answer, cached)` is told of every answer.
    """

    def __init__(
        self,
        options: WorkerOptions,
        journal: Journal,
        jobs: int,
        timeout_s: float,
        on_answer: Callable[[Mapping[str, Any], Mapping[str, Any], bool], None],
        name: str = "",
    ) -> None:
        self.options = options
        self.journal = journal
        self.jobs = jobs
        self.timeout_s = timeout_s
        self.on_answer = on_answer
        self.name = name
        self.worker: Worker | None = None
        self.restarts = 0

    def hello(self) -> Mapping[str, Any]:
        """What was recorded of the subject: from the journal, or from a worker that is started now."""
        key = self._key({"job": "hello"})
        if key not in self.journal.answers:
            self.journal.done(key, self._ready_worker().hello)
        return self.journal.answers[key]

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """One answer for each request, in order; equal requests are run once."""
        keys = [self._key(r) for r in requests]
        fresh: dict[str, Mapping[str, Any]] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in self.journal.answers:
                self.on_answer(request, self.journal.answers[key], True)
            elif self.journal.gave_up(key):
                self._done(key, request, LOST)
            else:
                fresh.setdefault(key, {"timeout_s": self.timeout_s, **request})
        while fresh:
            self._run(fresh)
        return [self.journal.answers[key] for key in keys]

    def _run(self, fresh: dict[str, Mapping[str, Any]]) -> None:
        """Ask the worker for what is left in `fresh`; what a dying worker leaves unanswered is asked again."""
        keys, requests = list(fresh), list(fresh.values())
        worker = self._ready_worker()
        for key in keys:
            self.journal.started(key, fresh[key])

        def done(index: int, reply: Mapping[str, Any]) -> None:
            answer = reply.get("answer", {"error": reply.get("error", "no answer")})
            self._done(keys[index], requests[index], answer)
            del fresh[keys[index]]

        try:
            worker.ask(requests, self.jobs, done)
        except WorkerLost:
            self.close()
            for key in list(fresh):
                self.journal.lost(key)
                if self.journal.gave_up(key):
                    self._done(key, fresh.pop(key), LOST)

    def _key(self, request: Mapping[str, Any]) -> str:
        """Another lab's journal entries answer nothing here: that is what a second opinion is for."""
        return key_of({**request, "lab": self.name} if self.name else request)

    def _done(self, key: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        self.journal.done(key, answer)
        self.on_answer(request, answer, False)

    def _ready_worker(self) -> Worker:
        if self.worker is None:
            if self.restarts > RESTARTS:
                raise WorkerLost("the worker process keeps dying; see worker.log in the run directory")
            self.restarts += 1
            self.worker = Worker(self.options)
            self.worker.wait_until_ready()
        return self.worker

    def close(self) -> None:
        """End the worker, if one runs; the journal stays open."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None
