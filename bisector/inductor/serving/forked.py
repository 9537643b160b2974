"""A forked child that does one job: how it starts, what it may use, how it dies."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from ... import processes
from ...core.messages import Envelope, RequestT
from ...core.model import Json
from ...core.protocol import CannotAnswer
from ...errors import first_line

RunJob = Callable[[RequestT], Json]  # from a request to the JSON of its answer



@dataclass
class Child(Generic[RequestT]):
    pid: int
    ask: Envelope[RequestT]
    pipe: int
    deadline: float
    timeout_s: float
    received: bytearray


def start(
    ask: Envelope[RequestT],
    run_job: RunJob[RequestT],
    channel: socket.socket,
    memory_bytes: int | None,
    log_path: str,
) -> Child[RequestT]:
    """Fork a child for the request. It writes one JSON object into its pipe: `answer`, or `error`.

    channel: the server's own, which the child closes. memory_bytes: what the child may allocate.
    """
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            os.close(reader)
            processes.die_with(parent)
            _child(ask.request, writer, run_job, channel, memory_bytes, log_path)
        finally:
            os._exit(1)  # whatever goes wrong above, a child never becomes a second server
    os.close(writer)
    return Child(pid, ask, reader, time.monotonic() + ask.timeout_s, ask.timeout_s, bytearray())


def _child(
    request: RequestT,
    writer: int,
    run_job: RunJob[RequestT],
    channel: socket.socket,
    memory_bytes: int | None,
    log_path: str,
) -> None:
    """In the child: run the job, write the answer, leave without any of the parent's exit handlers."""
    os.setsid()  # a group of its own, so that a kill reaches the compilers it started
    # A process that the job forks and leaves behind must not hold the pipe open: its end is our death.
    os.register_at_fork(after_in_child=lambda: os.close(writer))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel.close()
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    me, status = os.getpid(), 0
    try:
        with memory_limit(memory_bytes):
            answer = json.dumps({"answer": run_job(request)})
    except MemoryError:
        answer = json.dumps({"error": "out of memory"})
    except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
        traceback.print_exc(file=sys.stderr)
        answer = json.dumps({"error": reason(error)})
        status = 1
    if os.getpid() == me:  # a process that the job forked may come back here too
        with os.fdopen(writer, "wb") as out:
            out.write(answer.encode())
    sys.stdout.flush()
    os._exit(status)


def reason(error: BaseException) -> str:
    """Why a job that raised this has no answer, in one line."""
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
