"""The messages between the processes of a run: JSON objects, one a line."""

from __future__ import annotations

import json
from typing import Any


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
