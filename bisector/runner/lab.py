"""Where questions about the subject are asked: journal first, worker if needed, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import BadTarget, WorkerLost
from .journal import Journal, key_of
from .worker import Worker, WorkerOptions

# A worker that dies is started again; after this many starts without one answer it is not worth another.
STARTS = 4

HELLO = {"job": "hello"}
LOST: Mapping[str, Any] = {"error": "crash: the worker process died, more than once"}


class Lab:
    """Answers requests (`{"job": …}`) with the worker's JSON, or `{"error": reason}`.

    The worker starts when the first question is not in the journal, so that a resumed run that needs no
    more probes never starts one. `name` tells apart labs that share a journal.
    `on_answer(request, answer, cached)` is told of every answer.
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
        self.ready = False  # whether the worker has said hello
        self.starts = 0  # since the last answer

    def hello(self) -> Mapping[str, Any]:
        """What was recorded of the subject: from the journal, or from a worker that is started now."""
        key = self._key(HELLO)
        if key not in self.journal.answers:
            self._ready_worker()
        return self._noted(self.journal.answers[key])

    def start_early(self) -> None:
        """Start the worker for questions that come later; not where the journal shows that they came."""
        if self.worker is None and self._key(HELLO) not in self.journal.answers:
            self._start_worker()

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.ask_all([request])[0]

    def ask_all(
        self, requests: Sequence[Mapping[str, Any]], hints: Mapping[str, Any] | None = None
    ) -> list[Mapping[str, Any]]:
        """One answer for each request, in order; equal requests are run once.

        hints: for the worker, about how to answer; they do not change what is asked.
        """
        keys = [self._key(r) for r in requests]
        fresh: dict[str, Mapping[str, Any]] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in self.journal.answers:
                self.on_answer(request, self.journal.answers[key], True)
            elif self.journal.gave_up(key):
                self._done(key, request, LOST)
            else:
                fresh.setdefault(key, {"timeout_s": self.timeout_s, **(hints or {}), **request})
        while fresh:
            self._run(fresh)
        return [self.journal.answers[key] for key in keys]

    def _run(self, fresh: dict[str, Mapping[str, Any]]) -> None:
        """Ask the worker for what is left in `fresh`; what a dying worker leaves unanswered is asked again.

        Requests that were in flight at a death are then asked one at a time, so that the one that kills
        the worker is blamed alone.
        """
        suspects = [key for key in fresh if self.journal.losses.get(key)]
        keys = suspects[:1] or list(fresh)
        requests = [fresh[key] for key in keys]
        in_flight: set[str] = set()
        worker = self._ready_worker()

        def started(index: int) -> None:
            in_flight.add(keys[index])
            self.journal.started(keys[index], requests[index])

        def done(index: int, reply: Mapping[str, Any]) -> None:
            self.starts = 0
            answer = reply.get("answer", {"error": reply.get("error", "no answer")})
            in_flight.discard(keys[index])
            del fresh[keys[index]]
            self._done(keys[index], requests[index], answer)

        try:
            worker.ask(requests, self.jobs, done, started)
        except WorkerLost:
            self.close()
            for key in in_flight:
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
        worker = self.worker or self._start_worker()
        if not self.ready:
            try:
                self._take_hello(worker)
            except BaseException:
                self.close()
                raise
            self.ready = True
        return worker

    def _start_worker(self) -> Worker:
        if self.starts >= STARTS:
            raise WorkerLost("the worker process keeps dying; see worker.log in the run directory")
        self.starts += 1
        self.worker, self.ready = Worker(self.options), False
        return self.worker

    def _take_hello(self, worker: Worker) -> None:
        """Raises WorkerLost where the script that ran before now fails or leaves other inputs: answers about
        two subjects must not stand side by side in one journal."""
        key = self._key(HELLO)
        before = self.journal.answers.get(key)
        try:
            hello = worker.wait_until_ready()
        except BadTarget as error:
            if before is None:
                raise
            raise WorkerLost(f"the worker was started again, and now: {error}") from error
        if before is None:
            self.journal.done(key, self._noted(hello))
        elif _inputs(hello) != _inputs(before):
            raise WorkerLost(
                "the worker was started again, and the script gave other inputs; seed it, or use --seed"
            )

    def _noted(self, hello: Mapping[str, Any]) -> Mapping[str, Any]:
        """A worker that cannot fork runs one request at a time: more would only wait, and share its end."""
        if hello.get("one_at_a_time"):
            self.jobs = 1
        return hello

    def close(self) -> None:
        """End the worker, if one runs; the journal stays open."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def _inputs(hello: Mapping[str, Any]) -> list[Any]:
    return [call.get("digest") for call in hello.get("calls", ())]
