"""The warm fork server: one process with torch and the subject loaded, a forked child for each job.

A child starts in a tenth of a second, and a crash, a hang or a change of global state stays in it. The
main thread, which forks, runs no tensor code with more than one thread (see load.load).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .reference import first_line

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass
class Child:
    pid: int
    request: int
    pipe: int
    deadline: float
    timeout_s: float
    received: bytearray


class Server:
    """Answers JSON lines on a socket: `{"id", "job", "timeout_s", …}` -> `{"id", "answer" | "error"}`.

    in_worker: jobs that are not forked, because they are there for what they leave in this process.
    """

    def __init__(
        self,
        channel: socket.socket,
        run_job: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        memory_bytes: int | None,
        log_path: str,
        in_worker: frozenset[str] = frozenset(),
    ) -> None:
        self.channel = channel
        self.run_job = run_job
        self.memory_bytes = memory_bytes
        self.log_path = log_path
        self.in_worker = in_worker
        self.children: dict[int, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.incoming = bytearray()

    def serve(self) -> None:
        """Until the other side closes the channel; then every child is killed."""
        self.selector.register(self.channel, selectors.EVENT_READ)
        try:
            while self._step():
                pass
        except ConnectionError:
            return  # the other side was killed: there is nobody left to answer
        finally:
            for child in self.children.values():
                _kill(child.pid)
                os.waitpid(child.pid, 0)

    def _step(self) -> bool:
        now = time.monotonic()
        waits = [child.deadline - now for child in self.children.values()]
        for key, _ in self.selector.select(max(0.0, min(waits)) if waits else None):
            if key.fileobj is self.channel:
                if not self._receive():
                    return False
            else:
                self._read_child(key.fd)
        for child in list(self.children.values()):
            if time.monotonic() >= child.deadline:
                self._finish(child, f"timeout after {child.timeout_s:g} s")
        return True

    def _receive(self) -> bool:
        data = self.channel.recv(1 << 16)
        if not data:
            return False
        self.incoming += data
        while b"\n" in self.incoming:
            line, _, rest = bytes(self.incoming).partition(b"\n")
            self.incoming = bytearray(rest)
            request = json.loads(line)
            if request.get("job") in self.in_worker:
                self._run_here(request)
            else:
                self._fork(request)
        return True

    def _run_here(self, request: Mapping[str, Any]) -> None:
        """Run a job that changes this process, in a thread: the forking one must not run tensor code."""
        reply: dict[str, Any] = {"id": request["id"], "error": "no answer"}

        def job() -> None:
            try:
                reply.update(answer=self.run_job(request))
                del reply["error"]
            except Exception as error:  # noqa: BLE001 - whatever it raises is the answer, as in a child
                reply["error"] = first_line(error)

        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
        self.channel.sendall(json.dumps(reply).encode() + b"\n")

    def _fork(self, request: Mapping[str, Any]) -> None:
        reader, writer = os.pipe()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                os.close(reader)
                _die_with(parent)
                self._child(request, writer)
            finally:
                os._exit(1)  # whatever goes wrong above, a child never becomes a second server
        os.close(writer)
        timeout_s = float(request["timeout_s"])
        child = Child(pid, request["id"], reader, time.monotonic() + timeout_s, timeout_s, bytearray())
        self.children[reader] = child
        self.selector.register(reader, selectors.EVENT_READ)

    def _child(self, request: Mapping[str, Any], writer: int) -> None:
        """In the child: run the job, write the answer, leave without any of the parent's exit handlers."""
        os.setsid()  # a group of its own, so that a kill reaches the compilers it started
        # A process that the job forks and leaves behind must not hold the pipe open: its end is our death.
        os.register_at_fork(after_in_child=lambda: os.close(writer))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.channel.close()
        log = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        me, status = os.getpid(), 0
        try:
            with memory_limit(self.memory_bytes):
                answer = json.dumps({"answer": self.run_job(request)})
        except MemoryError:
            answer = json.dumps({"error": "out of memory"})
        except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
            traceback.print_exc(file=sys.stderr)
            answer = json.dumps({"error": first_line(error)})
            status = 1
        if os.getpid() == me:  # a process that the job forked may come back here too
            with os.fdopen(writer, "wb") as out:
                out.write(answer.encode())
        sys.stdout.flush()
        os._exit(status)

    def _read_child(self, pipe: int) -> None:
        child = self.children[pipe]
        data = os.read(pipe, 1 << 16)
        if data:
            child.received += data
        else:
            self._finish(child, None)

    def _finish(self, child: Child, death: str | None) -> None:
        """Send the child's answer, or how it died. death: the reason if we end it before it said a thing."""
        # Kill first: the group may hold more than the child, and until it is waited for, its number cannot
        # have become another process's. A child that is on its way out keeps the status it leaves with.
        _kill(child.pid)
        _, status = os.waitpid(child.pid, 0)
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        del self.children[child.pipe]
        reply: dict[str, Any] = {"id": child.request}
        try:
            reply.update(json.loads(bytes(child.received)))
        except ValueError:
            reply["error"] = death or _how_it_died(status)
        self.channel.sendall(json.dumps(reply).encode() + b"\n")


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the server dies, since nobody else would (Linux alone)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before we asked


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


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone already, or not yet the leader of a group: then the other call reaches it


def _how_it_died(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"crash: the probe's process left with status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    try:
        return f"crash: signal {number} ({signal.Signals(number).name})"
    except ValueError:  # Python names only the first and the last of the real-time signals
        return f"crash: signal {number}"
