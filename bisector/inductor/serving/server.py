"""The warm server: one process with torch and the subject loaded; each job in a forked child or in a thread.

A child starts in a tenth of a second, and a crash, a hang or a change of global state stays in it. The
main thread, which forks, runs no tensor code with more than one thread (see `capture.load`). A process that
has used CUDA cannot be forked and go on using it: there, every job runs in the server's own process, one
after the other. A job that hangs or leaves the device broken ends the server; its answer says so (`"ended"`),
and the client starts the next one by running the script again.
"""

from __future__ import annotations

import contextvars
import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol

from ... import processes, wire
from ...core.messages import Envelope, Lines, Reply, RequestT
from ...core.model import Json
from ...tracing import SILENT, Trace
from ..threads import Ran, run_in_thread
from . import forked
from .building import PATIENCE_S, Builder
from .forked import Child, RunJob


class State(Protocol):
    """What is done around a job in the server's own process, in the thread of the job."""

    def restore(self) -> None: ...

    def release(self) -> str | None:
        """Give back what the job held; the reason why this process cannot run another job, if any."""


class AsItIs:
    """The state of a server whose own jobs are there for what they leave behind."""

    def restore(self) -> None:
        """Nothing is put back."""

    def release(self) -> str | None:
        """Nothing is given back."""
        return None


class Server(Generic[RequestT]):
    """Answers messages (`core.protocol.Envelope`, `Reply`) on a socket, as JSON lines.

    load: a request from its JSON. memory_bytes: what a job may allocate. in_worker: of which requests the job
    is not forked; state: what is done around such a job. learn(request, answer): called with each answer of a
    child. builder: builds the kernels of the children together; as many children as it has lanes then compute
    at a time, and others wait for kernels. None: each builds its own, and starts at once.
    """

    def __init__(
        self,
        channel: socket.socket,
        run_job: RunJob[RequestT],
        load: Callable[[Json], RequestT],
        memory_bytes: int | None,
        log_path: str,
        in_worker: Callable[[RequestT], bool] = lambda request: False,
        learn: Callable[[RequestT, Json], None] = lambda request, answer: None,
        builder: Builder | None = None,
        trace: Trace = SILENT,
        state: State | None = None,
    ) -> None:
        self.channel = channel
        self.run_job = run_job
        self.load = load
        self.memory_bytes = memory_bytes
        self.log_path = log_path
        self.in_worker = in_worker
        self.learn = learn
        self.builder = builder
        self.trace = trace
        self.state = state or AsItIs()
        self.queue: deque[Envelope[RequestT]] = deque()
        self.children: dict[int, Child[RequestT]] = {}
        self.selector = selectors.DefaultSelector()
        self.incoming = Lines()
        self.ended = False  # whether this process is no longer fit to answer

    def serve(self) -> None:
        """Until the other side closes the channel, or a job here is cut off; then every child is killed."""
        self.selector.register(self.channel, selectors.EVENT_READ)
        try:
            while self._step():
                pass
        except ConnectionError:
            return  # the other side was killed: there is nobody left to answer
        finally:
            for child in self.children.values():
                forked.kill(child.pid)
                os.waitpid(child.pid, 0)
            if self.builder is not None:
                self.builder.stop()

    def _step(self) -> bool:
        now = time.monotonic()
        waits = [child.deadline - now for child in self.children.values()]
        if self.builder is not None and self.builder.asked:
            waits.append(PATIENCE_S)
        for key, _ in self.selector.select(max(0.0, min(waits)) if waits else None):
            if key.fileobj is self.channel:
                if not self._receive():
                    return False
            elif key.fd in self.children:
                self._read_child(key.fd)
            elif self.builder is not None and self.builder.has_ended(key.fd):
                self.selector.unregister(key.fd)
                self.builder.collect(key.fd)
        self._end_late()
        self._go_on()
        return not self.ended

    def _end_late(self) -> None:
        for child in list(self.children.values()):
            if time.monotonic() >= child.deadline:
                self._finish(child, f"timeout after {child.timeout_s:g} s")
        if self.builder is not None:
            self.builder.end_late()

    def _go_on(self) -> None:
        """Let children compute, as many as may: those whose kernels are built first, then new ones."""
        self._release()
        while self.queue and self._has_room():
            self._fork(self.queue.popleft())
        if self.builder is not None:
            for pipe in self.builder.begin(bool(self.queue) or self._computing() > 0):
                self.selector.register(pipe, selectors.EVENT_READ)
            self._release()  # who is to build for itself waits for no compiler

    def _release(self) -> None:
        while self.builder is not None and self._has_room() and (found := self.builder.take()) is not None:
            self.children[found.asker].release(found.kernels)

    def _computing(self) -> int:
        return len(self.children) - (0 if self.builder is None else len(self.builder.asked))

    def _has_room(self) -> bool:
        return self.builder is None or self._computing() < self.builder.lanes

    def _receive(self) -> bool:
        data = self.channel.recv(1 << 16)
        if not data:
            return False
        self.incoming.feed(data)
        while not self.ended and (message := self.incoming.take()) is not None:
            ask = Envelope.read(message, self.load)
            if self.in_worker(ask.request):
                self._run_here(ask)
            else:
                self.queue.append(ask)
        return True

    def _reply(self, request: RequestT, reply: Reply) -> None:
        if reply.error is None:
            self.learn(request, reply.answer)
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.channel.sendall(json.dumps(wire.dump(reply)).encode() + b"\n")

    def _run_here(self, ask: Envelope[RequestT]) -> None:
        """Run a job in a thread: the one that forks must not run tensor code, and Inductor's settings, grad
        mode and autocast belong to a thread, and end with it."""
        replies: list[Reply] = []
        # The settings of this thread, which no job changes: the job gets a copy of them.
        job = partial(contextvars.copy_context().run, self._job, ask, replies)
        with self.trace.spent("in the worker", type(ask.request).__name__):
            ran = run_in_thread(job, "job", ask.timeout_s, partial(processes.leave_if_alone, self.channel))
        if ran is not Ran.ENDED:
            # A compile that was cut off leaves half of its changes in this process: another one goes on.
            replies = [Reply(ask.id, error=f"timeout after {ask.timeout_s:g} s", ended=True)]
        reply = replies[0] if replies else Reply(ask.id, error="no answer")
        self.ended = reply.ended
        self._send(reply)

    def _job(self, ask: Envelope[RequestT], replies: list[Reply]) -> None:
        """In the job's thread. Its reply is added to the list."""
        replies.append(_caught(ask.id, lambda: self._around_state(ask)))

    def _around_state(self, ask: Envelope[RequestT]) -> Reply:
        with forked.memory_limit(self.memory_bytes):
            self.state.restore()
            # Through JSON and back: what cannot be written is this job's error, not the channel's.
            reply = _caught(ask.id, lambda: Reply(ask.id, json.loads(json.dumps(self.run_job(ask.request)))))
        broken = self.state.release()
        if broken is None:
            return reply
        return replace(reply, answer=None, error=reply.error or f"crash: {broken}", ended=True)

    def _fork(self, ask: Envelope[RequestT]) -> None:
        together = self.builder is not None
        child = forked.start(ask, self.run_job, self.channel, self.memory_bytes, self.log_path, together)
        self.children[child.fd] = child
        self.selector.register(child.line, selectors.EVENT_READ)

    def _read_child(self, fd: int) -> None:
        child = self.children[fd]
        if not child.read():
            self._finish(child, None)
        elif child.asks and self.builder is not None:
            self.builder.ask(fd, child.wait())

    def _finish(self, child: Child, death: str | None) -> None:
        """Send the child's answer, or how it died. death: the reason if we end it before it sent anything."""
        # Kill first: the group may hold more than the child, and until it is waited for, its number cannot
        # have become another process's. A child that is on its way out keeps the status it leaves with.
        forked.kill(child.pid)
        _, status, used = os.wait4(child.pid, 0)
        cpu_s = round(used.ru_utime + used.ru_stime, 3)
        name = type(child.ask.request).__name__
        self.trace.span("probes", name, child.begun_s, pid=child.pid, cpu_s=cpu_s)
        self.selector.unregister(child.line)
        del self.children[child.fd]
        if self.builder is not None:
            self.builder.forget(child.fd)
        child.line.close()
        result = child.result or {"error": death or forked.how_it_died(status)}
        self._reply(child.ask.request, Reply(child.ask.id, result.get("answer"), result.get("error")))


def _caught(ask_id: int, run: Callable[[], Reply]) -> Reply:
    """What `run` returns, or the error that it raised, in the words of a forked child."""
    try:
        return run()
    except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
        return Reply(ask_id, error=forked.reason(error), ended=isinstance(error, MemoryError))
