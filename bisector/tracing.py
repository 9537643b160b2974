"""A profile of a run in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open.

Every process of the run appends to one file: the times are those of the monotonic clock, which all processes
of a machine share. The format is the "JSON Array Format" of the Trace Event Format document.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .core.model import Json
from .errors import BadOption


@dataclass
class _Row:
    """Of a viewer. ended_s: when what stands in it last ended."""

    number: int
    ended_s: float = 0.0


class Trace:
    """Writes spans of time to a file; without a path, nothing.

    A line is written at once and whole (`O_APPEND`), so that processes need not wait for each other.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._rows: dict[str, list[_Row]] = {}

    @classmethod
    def begun(cls, path: str | None) -> Trace:
        """With an empty file. Raises BadOption for one that cannot be written."""
        if path is not None:
            path = os.path.abspath(path)
            try:
                Path(path).write_text("[\n")
            except OSError as error:
                raise BadOption(f"--trace {path}: {error.strerror}; name a file you can write") from error
        return cls(path)

    def span(self, kind: str, name: str, began_s: float, **about: Json) -> None:
        """Something of a kind that ends now and began then, on the monotonic clock."""
        if self.path is None:
            return
        ended_s = time.monotonic()
        row = self._free_row(kind, began_s)
        row.ended_s = ended_s
        self._write({
            "ph": "X", "name": name, "cat": kind, "pid": os.getpid(), "tid": row.number,
            "ts": round(began_s * 1e6), "dur": round((ended_s - began_s) * 1e6), "args": about,
        })  # fmt: skip

    @contextmanager
    def spent(self, kind: str, name: str, **about: Json) -> Iterator[None]:
        """The time of the block."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.span(kind, name, began_s, **about)

    def process(self, name: str) -> None:
        """What the calling process is called."""
        self._write({"ph": "M", "name": "process_name", "pid": os.getpid(), "args": {"name": name}})

    def _free_row(self, kind: str, began_s: float) -> _Row:
        """The first row of the kind that was empty by then: viewers take what overlaps in a row as nested."""
        rows = self._rows.setdefault(kind, [])
        for row in rows:
            if row.ended_s <= began_s:
                return row
        number = 1 + sum(map(len, self._rows.values()))
        rows.append(_Row(number))
        name = f"{kind} {len(rows)}"
        self._write({
            "ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": number, "args": {"name": name}
        })  # fmt: skip
        return rows[-1]

    def end(self) -> None:
        """Close the array; nothing is written after it. Viewers read a file without this too."""
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write('{"ph": "M", "name": "process_labels", "pid": 0, "args": {}}\n]\n')
            self.path = None

    def _write(self, event: dict[str, Json]) -> None:
        if self.path is None:
            return
        line = json.dumps(event) + ",\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


SILENT = Trace(None)
