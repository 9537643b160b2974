"""Processes that hold a compiled case, beside the fork server: each answers the probes that it can by a run.

A holder is forked from the server, compiles, says so, and then serves like the server does. A probe that it
cannot answer goes back to the server, which forks for it as for any other.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

from ...core.messages import Ask, Lines, RequestT
from ...core.model import Json
from ...processes import die_with
from .forked import RunJob, kill

# What a holder has not taken by then it never will: it reads whenever it does not compile or run.
SEND_S = 10.0
# A holder keeps the memory that its compile took; a search asks about one or two compiles at a time.
MOST = 2
REFUSED: Json = {"refused": True}  # in the place of an answer


@dataclass(eq=False)
class Holder(Generic[RequestT]):
    """One process. waiting: what it has not answered.

    deadline: for its compile, on the monotonic clock; None once it serves.
    """

    key: str
    pid: int
    channel: socket.socket
    deadline: float | None
    waiting: dict[int, Ask[RequestT]] = field(default_factory=dict)
    received: Lines = field(default_factory=Lines)

    def send(self, ask: Ask[RequestT], message: Json) -> None:
        self.waiting[ask.id] = ask
        try:
            self.channel.sendall(json.dumps(message).encode() + b"\n")
        except TimeoutError:
            kill(self.pid)  # it has half a message
        except OSError:
            return  # it died: reading from it tells

    def read(self) -> Iterator[dict[str, Json]]:
        """Its complete lines. Raises EOFError when it is gone."""
        try:
            data = self.channel.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        self.received.feed(data)
        while (line := self.received.take()) is not None:
            yield line


class Holders(Generic[RequestT]):
    """Which requests a holder takes.

    key_of: what the compile of a question is known by, None where it must not be held.
    prepare(request): compiles, in a holder, and returns what runs its jobs; whatever it raises ends it.
    serve(channel, run_job): answers requests on the channel until it closes.
    """

    def __init__(
        self,
        key_of: Callable[[Ask[RequestT]], str | None],
        prepare: Callable[[RequestT], RunJob[RequestT]],
        serve: Callable[[socket.socket, RunJob[RequestT]], None],
    ) -> None:
        self._key_of = key_of
        self._prepare = prepare
        self._serve = serve
        self._by_key: dict[str, Holder[RequestT]] = {}
        self._refused: set[str] = set()

    def take(self, ask: Ask[RequestT], message: Json) -> Holder[RequestT] | None:
        """Hand a question to a holder, a new one if need be; None where the server must fork for it.

        message: the question as it came."""
        key = self._key_of(ask)
        if key is None or key in self._refused:
            return None
        holder = self._by_key.pop(key, None) or self._start(key, ask)
        self._by_key[key] = holder  # the one used last stands last
        holder.send(ask, message)
        return holder

    def all(self) -> list[Holder[RequestT]]:
        return list(self._by_key.values())

    def surplus(self) -> Holder[RequestT] | None:
        """One that has nothing to do and has not been asked for longest, if there are too many."""
        idle = [holder for holder in self._by_key.values() if not holder.waiting]
        return idle[0] if len(self._by_key) > MOST and idle else None

    def end(self, holder: Holder[RequestT]) -> list[Ask[RequestT]]:
        """Kill it; what it has not answered comes back, and if it never served, no other is tried."""
        if holder.deadline is not None:
            self._refused.add(holder.key)
        kill(holder.pid)
        os.waitpid(holder.pid, 0)
        holder.channel.close()
        self._by_key.pop(holder.key, None)
        return list(holder.waiting.values())

    def _start(self, key: str, ask: Ask[RequestT]) -> Holder[RequestT]:
        ours, theirs = socket.socketpair()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                ours.close()
                os.setsid()
                die_with(parent)
                run_job = self._prepare(ask.request)
                theirs.sendall(b"{}\n")
                self._serve(theirs, run_job)
            finally:
                os._exit(0)
        theirs.close()
        ours.settimeout(SEND_S)
        return Holder(key, pid, ours, time.monotonic() + ask.timeout_s)


def _never_served(channel: socket.socket, run_job: RunJob[Any]) -> None:
    raise AssertionError("no request has a key, so there is no holder")


NO_HOLDERS: Holders[Any] = Holders(lambda ask: None, lambda request: lambda job: {}, _never_served)
