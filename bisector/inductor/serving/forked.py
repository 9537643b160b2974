"""A forked child that does one job: how it starts, what it may use, how it dies."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic

from ... import processes, wire
from ...core.messages import Envelope, Lines, RequestT
from ...core.model import Json
from ...core.protocol import CannotAnswer
from ...errors import first_line
from .. import kernels
from ..kernels import Built, Kernel

RunJob = Callable[[RequestT], Json]  # from a request to the JSON of its answer



@dataclass
class Child(Generic[RequestT]):
    """line: to the child, which writes into it what is to be built, and at the end its answer.

    deadline, begun_s: on the monotonic clock; what it waits for its kernels does not count. asks: kernels
    that are to be built; result: `answer` or `error`; both empty until then.
    """

    pid: int
    ask: Envelope[RequestT]
    line: socket.socket
    deadline: float
    timeout_s: float
    begun_s: float = field(default_factory=time.monotonic)
    asks: list[Kernel] = field(default_factory=list)
    result: dict[str, Json] = field(default_factory=dict)
    _received: Lines = field(default_factory=Lines)
    _left_s: float = 0.0

    @property
    def fd(self) -> int:
        """The number of the line."""
        return self.line.fileno()

    def read(self) -> bool:
        """What it has written; whether it is still there."""
        try:
            data = self.line.recv(1 << 16)
        except ConnectionError:
            return False
        self._received.feed(data)
        while (message := self._received.take()) is not None:
            if "kernels" in message:
                self.asks = [wire.load(Kernel, kernel) for kernel in message["kernels"]]
            else:
                self.result = message
        return bool(data)

    def wait(self) -> list[Kernel]:
        """Its time stands still; what it waits for."""
        self._left_s, self.deadline = self.deadline - time.monotonic(), math.inf
        asked, self.asks = self.asks, []
        return asked

    def release(self, built: Sequence[Built | None]) -> None:
        """Let it go on with its kernels."""
        self.deadline = time.monotonic() + self._left_s
        # One that died meanwhile is seen at the end of its line.
        with contextlib.suppress(OSError):
            self.line.sendall(json.dumps(wire.dump(list(built))).encode() + b"\n")


def start(
    ask: Envelope[RequestT],
    run_job: RunJob[RequestT],
    channel: socket.socket,
    memory_bytes: int | None,
    log_path: str,
    together: bool,
) -> Child[RequestT]:
    """Fork a child for the request.

    channel: the server's own, which the child closes. memory_bytes: what the child may allocate. together:
    whether it has the server build its kernels.
    """
    ours, theirs = socket.socketpair()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            ours.close()
            processes.die_with(parent)
            _child(ask.request, theirs, run_job, channel, memory_bytes, log_path, together)
        finally:
            os._exit(1)  # whatever goes wrong above, a child never becomes a second server
    theirs.close()
    return Child(pid, ask, ours, time.monotonic() + ask.timeout_s, ask.timeout_s)


def _child(
    request: RequestT,
    line: socket.socket,
    run_job: RunJob[RequestT],
    channel: socket.socket,
    memory_bytes: int | None,
    log_path: str,
    together: bool,
) -> None:
    """In the child: run the job, write the answer, leave without any of the parent's exit handlers."""
    os.setsid()  # a group of its own, so that a kill reaches the compilers it started
    # A process that the job forks and leaves behind must not hold the pipe open: its end is our death.
    os.register_at_fork(after_in_child=line.close)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel.close()
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    me, status = os.getpid(), 0
    try:
        built = kernels.built_by(partial(_built, line)) if together else contextlib.nullcontext()
        with memory_limit(memory_bytes), built:
            answer = json.dumps({"answer": run_job(request)})
    except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
        answer = json.dumps({"error": reason(error)})
        status = 1
    if os.getpid() == me:  # a process that the job forked may come back here too
        line.sendall(answer.encode() + b"\n")
    sys.stdout.flush()
    os._exit(status)


def _built(line: socket.socket, asked: Sequence[Kernel]) -> list[Built | None]:
    """Has the server build kernels; in a process that the job forked, or without an answer, nothing is."""
    try:
        line.sendall(json.dumps({"kernels": wire.dump(list(asked))}).encode() + b"\n")
        with line.makefile("rb") as answers:
            answer = json.loads(answers.readline())
    except (OSError, ValueError):
        return [None] * len(asked)
    return [None if built is None else wire.load(Built, built) for built in answer]


def reason(error: BaseException) -> str:
    """Why a job that raised this has no answer, in one line; the trace goes to the log."""
    if isinstance(error, MemoryError):
        return "out of memory"
    traceback.print_exception(error, file=sys.stderr)
    return str(error) if isinstance(error, CannotAnswer) else first_line(error)


@contextlib.contextmanager
def memory_limit(limit_bytes: int | None) -> Iterator[None]:
    """Allocations beyond the limit fail inside the block; what the forked process had already counts too."""
    if limit_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone already, or not yet the leader of a group: then the other call reaches it


def how_it_died(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"crash: {processes.how_it_ended(-os.WTERMSIG(status))}"
    return f"crash: the probe's process left with status {os.WEXITSTATUS(status)}"
