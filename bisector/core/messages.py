"""The messages between the processes of a run: JSON objects, one a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .model import Json


class Lines:
    """Objects out of the bytes of a stream, which come in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._rest += data

    def take(self) -> Any:
        """The next object; None while its line is not complete."""
        if b"\n" not in self._rest:
            return None
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        return json.loads(line)


RequestT = TypeVar("RequestT")


@dataclass(frozen=True)
class Ask(Generic[RequestT]):
    """A request on its way to a worker. timeout_s: seconds that its job may take."""

    id: int
    timeout_s: float
    request: RequestT


@dataclass(frozen=True)
class Reply:
    """What came of a request. answer: JSON of the request's own answer type, if there is one; error: why
    there is none. ended: the process that answered is gone with this answer."""

    id: int
    answer: Json = None
    error: str | None = None
    ended: bool = False
