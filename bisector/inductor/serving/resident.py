"""Jobs one after the other in the process that ran the script: for a subject that no fork takes along.

A process that has used CUDA cannot be forked and go on using it. So each job runs here, in a thread of its
own: Inductor's settings, grad mode and autocast belong to a thread, and end with it. What a job leaves in
the whole process `pristine` puts back. A job that hangs or leaves the device broken ends the process;
its answer says so (`"ended"`), and the client starts the next one by running the script again.
"""

from __future__ import annotations

import contextvars
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol

from ... import wire
from ...core.messages import Envelope, Lines, Reply, RequestT
from ...core.model import Json
from .forked import RunJob, memory_limit, reason


class State(Protocol):
    """What is done in a job's own thread before and after it."""

    def restore(self) -> None: ...

    def release(self) -> str | None:
        """Give back what the job held; the reason why this process cannot run another job, if any."""


class Resident(Generic[RequestT]):
    """Answers messages as `server.Server` does, without a fork and one at a time."""

    def __init__(
        self,
        channel: socket.socket,
        run_job: RunJob[RequestT],
        load: Callable[[Json], RequestT],
        state: State,
        memory_bytes: int | None = None,
    ) -> None:
        self.channel = channel
        self.run_job = run_job
        self.load = load
        self.state = state
        self.memory_bytes = memory_bytes
        self.incoming = Lines()
        self.done, self.tell_done = os.pipe()
        self.finished = False  # whether the job at hand has its reply
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Until the other side closes the channel, or a job ends the process."""
        self.selector.register(self.channel, selectors.EVENT_READ)
        self.selector.register(self.done, selectors.EVENT_READ)
        try:
            while self._wait(None):
                while (message := self.incoming.take()) is not None:
                    self._answer(Envelope.read(message, self.load))
        except ConnectionError:
            return  # the other side was killed: there is nobody left to answer

    def _answer(self, ask: Envelope[RequestT]) -> None:
        replies: list[Reply] = []
        # The settings of this thread, which no job changes: each job gets a copy of them.
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._job, ask, replies), daemon=True)
        deadline = time.monotonic() + ask.timeout_s
        self.finished = False
        thread.start()
        while not self.finished and time.monotonic() < deadline:
            if not self._wait(deadline):
                _end_group()  # nobody wants the answer
        if self.finished:
            reply = replies[0] if replies else Reply(ask.id, error="no answer")
        else:
            reply = Reply(ask.id, error=f"timeout after {ask.timeout_s:g} s", ended=True)
        self.channel.sendall(json.dumps(wire.dump(reply)).encode() + b"\n")
        if reply.ended:
            _end_group()

    def _job(self, ask: Envelope[RequestT], replies: list[Reply]) -> None:
        """In the job's thread: its reply, then the main thread is woken."""
        try:
            replies.append(_caught(ask.id, lambda: self._run(ask)))
        finally:
            os.write(self.tell_done, b".")

    def _run(self, ask: Envelope[RequestT]) -> Reply:
        with memory_limit(self.memory_bytes):
            self.state.restore()
            # Through JSON and back: what cannot be written is this job's error, not the channel's.
            reply = _caught(ask.id, lambda: Reply(ask.id, json.loads(json.dumps(self.run_job(ask.request)))))
        broken = self.state.release()
        if broken is None:
            return reply
        return replace(reply, answer=None, error=reply.error or f"crash: {broken}", ended=True)

    def _wait(self, deadline: float | None) -> bool:
        """Until something comes or the deadline passes. False where the other side closed the channel."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        for key, _ in self.selector.select(left):
            if key.fileobj is not self.channel:
                self.finished = bool(os.read(self.done, 1))
            elif data := self.channel.recv(1 << 16):
                self.incoming.feed(data)
            else:
                return False
        return True


def _caught(ask_id: int, run: Callable[[], Reply]) -> Reply:
    """What `run` returns, or the error it raised, in the words of the forking server."""
    try:
        return run()
    except MemoryError:
        return Reply(ask_id, error="out of memory", ended=True)
    except BaseException as error:  # noqa: BLE001 - the reason goes to the client, the trace to the log
        traceback.print_exc(file=sys.stderr)
        return Reply(ask_id, error=reason(error))


def _end_group() -> None:
    """End this process at once, with the compilers that a job started if the group is ours."""
    sys.stdout.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
