"""The client's end of a worker process: start it, ask it, and survive its death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from .. import processes, wire
from ..core.messages import Lines, Reply, WorkerOptions
from ..core.model import Json
from ..core.recorded import Recorded
from ..errors import BadTarget, NumbisectError, OutOfTime, WorkerLost
from .rundir import RunDirectory

T = TypeVar("T")

# Over the limits that the worker keeps itself: to import torch, to stop a script, to kill a probe.
START_S = 30.0
TURNS = 2  # a probe may wait for a job that runs in the worker itself, then have its own time
CLOSES_S, LAST_S, LEAST_S = 5.0, 2.0, 0.001
GARBLED = "the worker process sent what is no message; its last lines are in worker.log"

# The threads of an OpenMP program otherwise spin while they wait for the next loop, and two probes side by
# side then take more than twice as long as one. What is computed does not change.
QUIET_WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}


class Spare:
    """A process that a worker forked once it had imported torch, and that waits for options. It ends with
    that worker, whose mark it carries.

    settings: what it was started with, which no other options may change any more.
    """

    def __init__(self, channel: socket.socket, settings: object) -> None:
        self.channel = channel
        self.settings = settings
        self.pid: int | None = None

    def fits(self, options: WorkerOptions) -> bool:
        return self.pid is None and self.settings == _before_torch(options)

    def begin(self, options: WorkerOptions) -> bool:
        """Send it its options; False where it is not there."""
        try:
            self.channel.settimeout(START_S)
            self.channel.sendall(_line(options))
            self.pid = int(json.loads(self.channel.makefile("rb", buffering=0).readline())["pid"])
        except (OSError, ValueError):
            self.end()
            return False
        return True

    def poll(self) -> int | None:
        """Its parent alone sees how it ended."""
        return None

    def end(self, patience_s: float = 0.0) -> None:
        """End it. patience_s: time to end by itself first, once it sees that the channel is closed."""
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)
            self.channel.settimeout(max(patience_s, LEAST_S))
            while self.channel.recv(1 << 16):
                pass
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.channel.close()


class Worker:
    """One process with torch and the subject loaded.

    spare: what it forked, for another worker to be; None where there is none, or another one is it.
    """

    def __init__(self, options: WorkerOptions, spare: Spare | None = None) -> None:
        self.options = options
        self.buffer = Lines()
        self.serial = 0
        self.spare: Spare | None = None
        self.process: processes.Started | Spare
        self.channel: socket.socket
        if spare is not None and spare.begin(options):
            self.process, self.channel = spare, spare.channel
        else:
            self._start()

    def _start(self) -> None:
        self.channel, theirs = socket.socketpair()
        spare, theirs_too = socket.socketpair()
        # A group of its own: Ctrl-C on the terminal reaches us alone, and we close the worker in order.
        with theirs, theirs_too, _opened(Path(self.options.log)) as log:
            descriptors = [theirs.fileno(), theirs_too.fileno()]
            self.process = processes.start(
                processes.module("bisector.inductor.serving.worker", *map(str, descriptors)),
                pass_fds=descriptors,
                log=log,
                folder=self.options.folder,
                environment={**QUIET_WAITING, **os.environ, **self.options.environment},
            )
        self.spare = Spare(spare, _before_torch(self.options))
        self.channel.settimeout(START_S)
        with contextlib.suppress(OSError):  # it died at once: that it says no hello tells
            self.channel.sendall(_line(self.options))

    def take_spare(self, options: WorkerOptions) -> Spare | None:
        """What it forked, if that can become a worker with these options; once."""
        if self.spare is None or not self.spare.fits(options):
            return None
        taken, self.spare = self.spare, None
        return taken

    def wait_until_ready(self) -> Recorded:
        """The hello of the worker. Raises BadTarget with the worker's own line when there is no subject,
        OutOfTime when the script took too long, WorkerLost when the process was killed."""
        script_s = self.options.load.timeout_s
        if self.options.left_s is not None:
            script_s = min(script_s, self.options.left_s)
        try:
            hello = self._receive(script_s + START_S)
        except _Silent as silent:
            self.process.end()
            more = "make it shorter, or give it more time with --timeout and --budget"
            problem = f"{_target(self.options)} did not end within {script_s:.3g} s and blocks its process"
            raise OutOfTime(f"{problem}; {more}") from silent
        if hello is None and isinstance(self.process, Spare):
            self.process.end()
            self._start()  # a process of its own tells how it ends
            return self.wait_until_ready()
        if hello is None:
            raise self._gone()
        if isinstance(hello, dict) and "problem" in hello:
            raise OutOfTime(hello["problem"]) if hello.get("late") else BadTarget(hello["problem"])
        return _read(Recorded, hello)

    def _gone(self) -> NumbisectError:
        """Why the channel closed before the hello."""
        if isinstance(self.process, processes.Started):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.popen.wait(LAST_S)
        target, status = _target(self.options), self.process.poll()
        if status is None:
            self.process.end()
            advice = "close no files in it but its own"
            return BadTarget(f"{target} cut its process off from numbisect; {advice}")
        if status < 0:
            how = processes.how_it_ended(status)
            return WorkerLost(f"the process that ran {target} was ended by {how}; {_hint(self.options)}")
        return BadTarget(f"{target} ended the process that ran it; {_hint(self.options)}")

    def ask(
        self,
        requests: Sequence[Json],
        timeout_s: float,
        jobs: int,
        done: Callable[[int, Reply], None],
        started: Callable[[int], None] = lambda index: None,
    ) -> None:
        """Run the requests, at most `jobs` at a time; `done(i, reply)` is called as each one ends.

        requests: each with the name of its job (`request_json`). timeout_s: for each. `started(i)` is called
        before each one is sent.

        Raises WorkerLost when the worker goes away, or says nothing for so long that it never will; requests
        without a `done` call were not answered.
        """
        silence_s = TURNS * timeout_s + START_S
        waiting: dict[int, int] = {}
        position = 0
        while position < len(requests) or waiting:
            while position < len(requests) and len(waiting) < jobs:
                self.serial += 1
                waiting[self.serial] = position
                started(position)
                self._send(timeout_s, requests[position], silence_s)
                position += 1
            try:
                received = self._receive(silence_s)
            except _Silent as silent:
                self.process.end()
                lost = f"the worker process said nothing for {silence_s:g} s and was ended"
                raise WorkerLost(lost) from silent
            if received is None:
                raise WorkerLost("the worker process died; its last lines are in worker.log")
            reply = _read(Reply, received)
            index = waiting.pop(reply.id, None)
            if index is not None:  # an answer to a request that an interrupt abandoned is dropped
                done(index, reply)
            if reply.ended:
                raise WorkerLost("the worker process ended with its last answer")

    def close(self) -> None:
        """End the worker and every probe in flight."""
        if self.spare is not None:
            self.spare.end()
        if isinstance(self.process, processes.Started):
            self.channel.close()
        self.process.end(CLOSES_S)

    def _send(self, timeout_s: float, request: Json, within_s: float) -> None:
        envelope = {"id": self.serial, "timeout_s": timeout_s, "request": request}
        self.channel.settimeout(within_s)
        try:
            self.channel.sendall(json.dumps(envelope).encode() + b"\n")
        except OSError as error:
            raise WorkerLost("the worker process died; its last lines are in worker.log") from error

    def _receive(self, within_s: float) -> Any:
        """The next message; None where the worker is gone. Raises _Silent, and WorkerLost for what is no
        message."""
        deadline = time.monotonic() + within_s
        try:
            while (message := self.buffer.take()) is None:
                self.channel.settimeout(max(deadline - time.monotonic(), LEAST_S))
                data = self.channel.recv(1 << 16)
                if not data:
                    return None
                self.buffer.feed(data)
        except TimeoutError as late:
            raise _Silent from late
        except OSError:
            return None
        except ValueError as error:
            raise WorkerLost(GARBLED) from error
        return message


def _before_torch(options: WorkerOptions) -> object:
    """What a worker is given before it imports torch."""
    return options.folder, dict(options.environment)


def _line(options: WorkerOptions) -> bytes:
    return json.dumps(wire.dump(options)).encode() + b"\n"


class _Silent(Exception):
    """Nothing came in time."""


def _read(kind: type[T], message: Any) -> T:
    """Raises WorkerLost where the message is no such thing: something else wrote on the channel."""
    try:
        return wire.load(kind, message)
    except Exception as error:  # the converter raises whatever it stumbles over
        raise WorkerLost(GARBLED) from error


def _opened(log: Path) -> BinaryIO:
    try:
        return log.open("ab")
    except OSError as error:
        raise RunDirectory(log.parent).cannot_write(log, error) from error


def _target(options: WorkerOptions) -> str:
    return Path(options.load.target).name


def _hint(options: WorkerOptions) -> str:
    return f"its last lines are in {Path(options.log).name} of the run directory"
