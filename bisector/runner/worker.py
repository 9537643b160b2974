"""The client's end of a worker process: start it, ask it, and survive its death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import wire
from ..core.lines import Lines
from ..core.protocol import Ask, Compiles, Recorded, Reply, Request
from ..errors import BadTarget, WorkerLost

# The threads of an OpenMP program otherwise spin while they wait for the next loop, and two probes side by
# side then take more than twice as long as one. What is computed does not change.
QUIET_WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is started with.

    load: the fields of bisector.inductor.capture.load.LoadOptions, but threads.
    config: baseline settings (`-c`), by the names users write. memory_bytes: limit of one probe.
    folder: the working directory of the script. first: build the compiler's precompiled header meanwhile;
    a later worker of the same run finds it built. forks: each job in a forked child, or all jobs in the
    worker itself; None: in the worker once the script has used CUDA, which no fork survives.
    choices: the file where what is chosen by timing on a GPU is kept for the next probe; None: nowhere.
    """

    load: Mapping[str, Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    first: bool = True
    memory_bytes: int | None = None
    folder: str | None = None
    log: str = os.devnull
    forks: bool | None = None
    choices: str | None = None


class Worker:
    """One process with torch and the subject loaded."""

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.channel, theirs = socket.socketpair()
        # A group of its own: Ctrl-C on the terminal reaches us alone, and we close the worker in order.
        with theirs, open(options.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bisector.inductor.serving.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=options.folder,
                env={**QUIET_WAITING, **os.environ},
                start_new_session=True,
            )
        self.buffer = Lines()
        self.serial = 0
        with contextlib.suppress(ConnectionError):  # it died at once: that it says no hello tells
            self.channel.sendall(json.dumps(asdict(options)).encode() + b"\n")

    def wait_until_ready(self) -> Recorded:
        """The hello of the worker. Raises BadTarget with the worker's own line when there is no subject."""
        hello = self._receive()
        if hello is None:
            raise BadTarget(f"{_target(self.options)} ended the process that ran it; {_hint(self.options)}")
        if "problem" in hello:
            raise BadTarget(hello["problem"])
        return wire.load(Recorded, hello)

    def ask(
        self,
        requests: Sequence[Request[Any]],
        timeout_s: float,
        compiles: Compiles,
        jobs: int,
        done: Callable[[int, Reply], None],
        started: Callable[[int], None] = lambda index: None,
    ) -> None:
        """Run the requests, at most `jobs` at a time; `done(i, reply)` is called as each one ends.

        timeout_s: for each. `started(i)` is called before each one is sent.

        Raises WorkerLost when the worker goes away; requests without a `done` call were not answered.
        """
        waiting: dict[int, int] = {}
        position = 0
        while position < len(requests) or waiting:
            while position < len(requests) and len(waiting) < jobs:
                self.serial += 1
                waiting[self.serial] = position
                started(position)
                self._send(Ask(self.serial, timeout_s, requests[position], compiles))
                position += 1
            received = self._receive()
            if received is None:
                raise WorkerLost("the worker process died; its last lines are in worker.log")
            reply = wire.load(Reply, received)
            index = waiting.pop(reply.id, None)
            if index is not None:  # an answer to a request that an interrupt abandoned is dropped
                done(index, reply)
            if reply.ended:
                raise WorkerLost("the worker process ended with its last answer")

    def close(self) -> None:
        """End the worker and every probe in flight."""
        self.channel.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _send(self, ask: Ask[Request[Any]]) -> None:
        try:
            self.channel.sendall(json.dumps(wire.dump_ask(ask)).encode() + b"\n")
        except OSError as error:
            raise WorkerLost("the worker process died; its last lines are in worker.log") from error

    def _receive(self) -> Any:
        while (message := self.buffer.take()) is None:
            try:
                data = self.channel.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            self.buffer.feed(data)
        return message


def _target(options: WorkerOptions) -> str:
    return Path(str(options.load.get("target", "the target"))).name


def _hint(options: WorkerOptions) -> str:
    return f"its last lines are in {Path(options.log).name} of the run directory"
