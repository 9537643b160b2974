"""The append-only journal: what was asked and what came back, the only state of a run.

A line is written before a probe starts and another when it is done, so a run that is killed at any
moment goes on from here: finished probes are not run again. It keeps measurements, not outcomes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import wire
from ..core.model import Json
from ..errors import AnotherHead
from .head import Head, changed_files, digest_of
from .rundir import RunDirectory, lock

# A request that was in flight when a worker died is asked once more; the second time it is to blame.
MAX_LOSSES = 2


def key_of(request: Json, asker: str = "") -> str:
    """Equal requests of one asker, equal keys."""
    text = wire.text_of([asker, request])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Journal:
    """Answers by request, under the head that the file begins with. Lines that a kill cut short,
    or that are damaged, are ignored.

    files: digests of what the target read, by full name. One process at a time writes it.
    """

    def __init__(self, path: Path, head: Head | None = None, target: str = "the target") -> None:
        """head: what holds now; None: whatever holds. target: its name, for messages.

        Raises BadTarget where another process writes the journal, where what the file begins with is not the
        head, or where a file that the target read has changed; CannotWrite where it cannot be written.
        """
        self.path = path
        self.answers: dict[str, Json] = {}
        self.losses: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self._head: Head | None = None
        # Without a buffer: what could not be written must not be tried again when the file is closed.
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RunDirectory(path.parent).cannot_write(path, error) from error
        lock(self._file, path)
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            self._take(line)
        if path.stat().st_size:
            self._write_line(b"\n")  # a cut line must not swallow the next one
        if head is not None:
            self._begin(head, target)

    def _begin(self, head: Head, target: str) -> None:
        if self._head is None and not self.answers:
            self._write({"event": "head", "head": wire.dump(head)})
            return
        if self._head is None:
            changed: str | None = "it does not say under what it was made"
        else:
            changed = self._head.changed(target, head) or changed_files(self.files)
        if changed is not None:
            self.close()
            raise AnotherHead(
                f"{self.path.parent}: {changed}; `numbisect resume {self.path.parent} --again` starts over"
            )

    def read(self, files: Iterable[str]) -> None:
        """The target read these files."""
        self.files = {name: digest_of(Path(name)) for name in files}
        self._write({"event": "files", "digests": self.files})

    def _take(self, line: str) -> None:
        try:
            record = json.loads(line)
            event = record["event"]
            if event == "head":
                self._head = wire.load(Head, record["head"])
            elif event == "files":
                self.files = record["digests"]
            elif event == "lost":
                self.losses[record["key"]] = self.losses.get(record["key"], 0) + 1
            elif event == "done":
                self.answers[record["key"]] = record["answer"]
        except (ValueError, TypeError, KeyError):
            return  # a line that a kill or the disk spoilt, or a blank one: its question is asked again

    def started(self, key: str, request: Json, asker: str = "") -> None:
        self._write({"event": "start", "key": key, "asker": asker, "request": request})

    def lost(self, key: str) -> None:
        """The worker died while it had this request. A run that is killed leaves no such line."""
        self.losses[key] = self.losses.get(key, 0) + 1
        self._write({"event": "lost", "key": key})

    def done(self, key: str, answer: Json) -> None:
        self.answers[key] = answer
        self._write({"event": "done", "key": key, "answer": answer})

    def gave_up(self, key: str) -> bool:
        """Whether this request was in flight at too many deaths of a worker to be tried again."""
        return self.losses.get(key, 0) >= MAX_LOSSES

    def close(self) -> None:
        self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        self._write_line(json.dumps(record).encode() + b"\n")

    def _write_line(self, line: bytes) -> None:
        """Raises CannotWrite when the disk is full: a run that cannot be resumed must not go on."""
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise RunDirectory(self.path.parent).cannot_write(self.path, error) from error
