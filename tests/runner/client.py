"""A server in a process of its own, and our end of its channel."""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any


def message(id: int, timeout_s: float = 15.0, **request: Any) -> dict[str, Any]:
    return {"id": id, "timeout_s": timeout_s, "compiles": "own", "request": request}


def as_it_is(raw: Any) -> Any:
    """The requests of a tiny job are JSON."""
    return raw


class Client:
    """serve: runs in the other process, on its end of the channel, until the channel closes."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(20)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.channel.close()
                os.setsid()
                faulthandler.disable()
                sys.stdout = sys.stderr = open(2, "w", 1, closefd=False)  # noqa: SIM115 - pytest's own are elsewhere
                serve(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self.lines = self.channel.makefile("rb")

    def send(self, *requests: Mapping[str, Any]) -> None:
        """id and timeout_s stand around the request, all else is the request."""
        self.channel.sendall("".join(json.dumps(message(**r)) + "\n" for r in requests).encode())

    def line(self) -> dict[str, Any] | None:
        """The next reply; None where the server went away."""
        return json.loads(self.lines.readline() or b"null")  # type: ignore[no-any-return]

    def reply(self) -> dict[str, Any]:
        found = self.line()
        assert found is not None, "the server went away"
        return found

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send({"id": 1, **request})
        return self.reply()

    def ask_all(self, *requests: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The answers, in the order of the requests."""
        self.send(*({"id": i, **request} for i, request in enumerate(requests)))
        replies = {reply["id"]: reply for reply in (self.reply() for _ in requests)}
        return [replies[i].get("answer", replies[i]) for i in range(len(requests))]

    def end(self) -> int:
        """Close the channel; the status that the other process left with."""
        self.lines.close()
        self.channel.close()
        return os.waitpid(self.pid, 0)[1]
