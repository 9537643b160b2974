"""Where questions about the subject are asked: journal first, worker if needed, several at a time."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import request_json, wire
from ..core.budget import BudgetSpent
from ..core.endings import EndedByError
from ..core.messages import Reply, WorkerOptions
from ..core.model import Json
from ..core.protocol import PROBES, Answer, Failed, Record, Request
from ..core.recorded import Recorded
from ..errors import BadTarget, OutOfTime, WorkerLost
from ..tracing import SILENT, Trace
from .head import changed_files
from .journal import Journal, key_of
from .worker_client import Worker

# A worker that dies is started again; after this many starts without one answer it is not worth another.
STARTS = 4
# Probes in flight where their kernels are built together: each holds the memory of a process meanwhile.
MOST_AT_A_TIME = 16
# Questions that are worth asking at a time there, on few cores: a further one costs a fifth to a half of one
# that is asked alone.
WIDTH = 6

# Somebody else may have done that, the kernel say when memory was short; or torch itself, whose pool of
# threads is not always there yet in a forked process ("Invalid thread pool"): it is asked once more.
CHANCE = ("signal 9 (SIGKILL)", "Killed signal terminated", "signal 6 (SIGABRT)")

LOST = Failed("crash: the worker process died, more than once")
OnAnswer = Callable[[Request[Any], Any, "Known"], None]


class Known(enum.Enum):
    """Where an answer came from."""

    JOURNAL = "journal"
    WORKER = "worker"


class Lab:
    """Answers requests with the worker's answers, or with Failed.

    The worker starts when the first question is not in the journal, so that a resumed run that needs no
    more probes never starts one. `name` distinguishes labs that share a journal.
    `on_answer(request, answer, known)` gets every answer. `left_s()` is what is left of the budget,
    None where there is none. `doubts(reason)` raises where a failure is the machine's: it answers nothing.
    `prepare()` makes what a worker needs, before it starts.
    `labs` are all of the run. Of a subject on a GPU one worker lives at a time: each holds all of the model
    there, and some devices are set to take one process.
    """

    def __init__(
        self,
        options: WorkerOptions,
        journal: Journal,
        jobs: int,
        timeout_s: float,
        on_answer: OnAnswer,
        name: str = "",
        left_s: Callable[[], float | None] = lambda: None,
        doubts: Callable[[str], None] = lambda reason: None,
        trace: Trace = SILENT,
        labs: Sequence[Lab] = (),
    ) -> None:
        self.options = options
        self.journal = journal
        self.jobs = jobs
        self.timeout_s = timeout_s
        self.on_answer = on_answer
        self.name = name
        self.left_s = left_s
        self.doubts = doubts
        self.trace = trace
        self.prepare: Callable[[], None] = lambda: None
        self.labs = labs
        self.has_the_device = False  # whether its subject is on a GPU
        self.worker: Worker | None = None
        self.ready = False  # whether the worker's hello has come
        self.starts = 0  # since the last answer
        self._ahead: list[Request[Any]] = []

    @property
    def width(self) -> int:
        """How many questions about a graph of common size are worth asking at a time."""
        return self.jobs if self.options.lanes is None or self.jobs == 1 else max(WIDTH, self.jobs)

    def hello(self) -> Recorded:
        """What was recorded of the subject: from the journal, or from a worker that is started now."""
        key = self.key(Record())
        if key not in self.journal.answers:
            self._ready_worker()
        return self._noted(wire.load(Recorded, self.journal.answers[key]))

    def start_early(self) -> None:
        """Start the worker for questions that come later; not where the journal shows that they came, nor
        where another one must end for it."""
        asked = self.key(Record()) in self.journal.answers
        if self.worker is None and not asked and not self._one_at_a_time:
            self._start_worker()

    @property
    def _one_at_a_time(self) -> bool:
        return any(lab.has_the_device for lab in self.labs)

    def ahead(self, requests: Sequence[Request[Any]]) -> None:
        """Ask these with the next probes, if any come: their answers are then there when wanted."""
        self._ahead += requests

    def settle(self) -> None:
        """Nothing is guessed here: each question is answered when it is asked."""

    def ask(self, request: Request[Answer]) -> Answer | Failed:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request[Answer]]) -> list[Answer | Failed]:
        """One answer for each request, in order; equal requests are run once."""
        keys = [self.key(r) for r in requests]
        fresh: dict[str, Request[Any]] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in self.journal.answers:
                self.on_answer(request, self._answer(key, request), Known.JOURNAL)
            elif self.journal.gave_up(key):
                self._done(key, request, request_json.dump_failed(LOST.reason))
            else:
                fresh.setdefault(key, request)
        if any(isinstance(request, PROBES) for request in fresh.values()):
            fresh = self._with_ahead(fresh)
        while fresh:
            self._run(fresh)
        return [self._answer(key, request) for key, request in zip(keys, requests, strict=True)]

    def _with_ahead(self, fresh: dict[str, Request[Any]]) -> dict[str, Request[Any]]:
        """Right after the first: a trace takes longest, and begun last it would outlast all others."""
        ahead = {self.key(request): request for request in self._ahead if not self.knows(request)}
        self._ahead = []
        first = next(iter(fresh))
        return {first: fresh[first], **ahead, **fresh}

    def _answer(self, key: str, request: Request[Any]) -> Any:
        return request_json.load_answer(request, self.journal.answers[key])

    def _run(self, fresh: dict[str, Request[Any]]) -> None:
        """Ask the worker for what is left in `fresh`; what a dying worker leaves unanswered is asked again.

        Requests that were in flight at a death are then asked one at a time, so that the one that kills
        the worker is blamed alone.
        """
        suspects = [key for key in fresh if self.journal.losses.get(key)]
        keys = suspects[:1] or list(fresh)
        requests = [fresh[key] for key in keys]
        messages = list(map(request_json.dump_request, requests))
        in_flight: set[str] = set()
        worker = self._ready_worker()

        def started(index: int) -> None:
            in_flight.add(keys[index])
            self.journal.started(keys[index], messages[index], self.name)

        def done(index: int, reply: Reply) -> None:
            self.starts = 0
            key = keys[index]
            if reason := _failure(reply):
                self.doubts(reason)
                if any(sign in reason for sign in CHANCE) and not self.journal.losses.get(key):
                    in_flight.discard(key)
                    self.journal.lost(key)
                    return
            answer = reply.answer if reply.error is None else request_json.dump_failed(reply.error)
            in_flight.discard(keys[index])
            del fresh[keys[index]]
            self._done(keys[index], requests[index], answer)

        try:
            at_a_time = MOST_AT_A_TIME if self.width > self.jobs else self.jobs
            with self.trace.spent("rounds", _named(requests), requests=len(requests)):
                worker.ask(messages, self.timeout_s, at_a_time, done, started)
        except WorkerLost:
            self.close()
            for key in in_flight:
                self.journal.lost(key)
                if self.journal.gave_up(key):
                    self._done(key, fresh.pop(key), request_json.dump_failed(LOST.reason))

    def knows(self, request: Request[Any]) -> bool:
        """Whether the answer is there already."""
        key = self.key(request)
        return key in self.journal.answers or self.journal.gave_up(key)

    def key(self, request: Request[Any]) -> str:
        """Another lab's journal entries answer nothing here: that is what a second opinion is for."""
        return key_of(request_json.dump_request(request), self.name)

    def _done(self, key: str, request: Request[Any], answer: Json) -> None:
        self.journal.done(key, answer)
        self.on_answer(request, self._answer(key, request), Known.WORKER)

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
        if changed := changed_files(self.journal.files):
            raise WorkerLost(f"{changed} while the run was at work; start again")
        for other in self.labs if self._one_at_a_time else ():
            if other is not self:
                other.close()
        self.prepare()
        self.starts += 1
        options = replace(self.options, left_s=self.left_s())
        workers = [lab.worker for lab in self.labs if lab is not self and lab.worker is not None]
        spare = next((found for one in workers if (found := one.take_spare(options)) is not None), None)
        self.worker, self.ready = Worker(options, spare), False
        return self.worker

    def _take_hello(self, worker: Worker) -> None:
        """Raises WorkerLost where the script that ran before now fails or leaves other inputs: answers about
        two subjects must not stand side by side in one journal."""
        key = self.key(Record())
        raw = self.journal.answers.get(key)
        before = None if raw is None else wire.load(Recorded, raw)
        try:
            with self.trace.spent("rounds", f"wait for the worker {self.name}".strip()):
                hello = worker.wait_until_ready()
        except OutOfTime as late:
            if self.left_s() == 0.0:
                raise BudgetSpent(EndedByError(str(late))) from late
            raise
        except BadTarget as error:
            if before is None:
                raise
            raise WorkerLost(f"the worker was started again, and now: {error}") from error
        if before is None:
            self.journal.done(key, wire.dump(self._noted(hello)))
            self.journal.read(hello.files)
        elif _inputs(hello) != _inputs(before):
            raise WorkerLost(
                "the worker was started again, and the script gave other inputs; seed it, or use --seed"
            )

    def _noted(self, hello: Recorded) -> Recorded:
        """A worker that cannot fork runs one request at a time: more would only wait, and share its end."""
        if hello.one_at_a_time:
            self.jobs = 1
        self.has_the_device = hello.on_cuda
        return hello

    def close(self) -> None:
        """End the worker, if one runs; the journal stays open."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def _named(requests: Sequence[Request[Any]]) -> str:
    """What is asked, each sort once."""
    return ", ".join(dict.fromkeys(type(request).__name__ for request in requests))


def _failure(reply: Reply) -> str | None:
    """Why there was nothing to measure; of a verdict, why its default compile had nothing."""
    if reply.error is not None or not isinstance(reply.answer, dict):
        return reply.error
    default = reply.answer.get("default")
    measurement = default if isinstance(default, dict) else reply.answer
    if isinstance(measurement.get("error"), str):
        return str(measurement["error"])
    outputs = measurement.get("outputs")
    raised = [o.get("raised") for o in outputs if isinstance(o, dict)] if isinstance(outputs, list) else []
    return next((str(r["compiled"]) for r in raised if r and r.get("compiled")), None)


def _inputs(hello: Recorded) -> list[str]:
    return [call.digest for call in hello.calls]
