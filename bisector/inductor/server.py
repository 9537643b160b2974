"""The warm fork server: one process with torch and the subject loaded, a forked child for each job.

A child starts in a tenth of a second, and a crash, a hang or a change of global state stays in it. The
main thread, which forks, runs no tensor code with more than one thread (see load.load).
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .reference import first_line


@dataclass
class Child:
    pid: int
    request: int
    pipe: int
    deadline: float
    timeout_s: float
    received: bytearray


class Server:
    """Answers JSON lines on a socket: `{"id", "job", "timeout_s", …}` -> `{"id", "answer" | "error"}`."""

    def __init__(
        self,
        channel: socket.socket,
        run_job: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        memory_bytes: int | None,
        log_path: str,
    ) -> None:
        self.channel = channel
        self.run_job = run_job
        self.memory_bytes = memory_bytes
        self.log_path = log_path
        self.children: dict[int, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.incoming = bytearray()

    def serve(self) -> None:
        """Until the other side closes the channel; then every child is killed."""
        self.selector.register(self.channel, selectors.EVENT_READ)
        try:
            while self._step():
                pass
        finally:
            for child in self.children.values():
                _kill(child.pid)

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
                _kill(child.pid)
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
            self._fork(json.loads(line))
        return True

    def _fork(self, request: Mapping[str, Any]) -> None:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._child(request, writer)
        os.close(writer)
        timeout_s = float(request["timeout_s"])
        child = Child(pid, request["id"], reader, time.monotonic() + timeout_s, timeout_s, bytearray())
        self.children[reader] = child
        self.selector.register(reader, selectors.EVENT_READ)

    def _child(self, request: Mapping[str, Any], writer: int) -> None:
        """In the child: run the job, write the answer, leave without any of the parent's exit handlers."""
        os.setsid()  # a group of its own, so that a kill reaches the compilers it started
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.channel.close()
        log = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = 0
        try:
            if self.memory_bytes is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (self.memory_bytes, self.memory_bytes))
            answer = {"answer": self.run_job(request)}
        except MemoryError:
            answer = {"error": "out of memory"}
        except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
            traceback.print_exc(file=sys.stderr)
            answer = {"error": first_line(error)}
            status = 1
        with os.fdopen(writer, "wb") as out:
            out.write(json.dumps(answer).encode())
        sys.stdout.flush()
        os._exit(status)

    def _read_child(self, pipe: int) -> None:
        child = self.children[pipe]
        data = os.read(pipe, 1 << 16)
        if data:
            child.received += data
            return
        _, status = os.waitpid(child.pid, 0)
        _kill(child.pid)  # what the child left behind in its group
        self._finish(child, _how_it_died(status), reap=False)

    def _finish(self, child: Child, death: str, reap: bool = True) -> None:
        if reap:
            os.waitpid(child.pid, 0)
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        del self.children[child.pipe]
        reply: dict[str, Any] = {"id": child.request}
        try:
            reply.update(json.loads(bytes(child.received)))
        except ValueError:
            reply["error"] = death
        self.channel.sendall(json.dumps(reply).encode() + b"\n")


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone already, or not yet the leader of a group: then the other call reaches it


def _how_it_died(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"crash: signal {number} ({signal.Signals(number).name})"
    return f"crash: the probe's process left with status {os.WEXITSTATUS(status)}"
