"""The run store: one folder that holds everything that is known of the failures; memory holds nothing else.

failures/ID/failure.json  what is known of one; a job replaces it whole
failures/ID/request.json  what the last job was asked
failures/ID/run           the run directory of its jobs
clusters/NAME/            a representative, and who belongs to it
triage.json, triage.md, triage.html
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisector import wire
from bisector.core.outcome import Outcome
from bisector.core.own_folders import TRIAGE_OPTIONS
from bisector.errors import AnotherHead, BadOption
from bisector.runner.head import Head
from bisector.runner.rundir import RunDirectory

from ...subject.targets import Failure
from .failure import Looked

RUN = "run"


@dataclass(frozen=True)
class Store:
    path: Path

    @classmethod
    def opened(cls, path: Path, asked: Mapping[str, Any], head: Head) -> Store:
        """A new store, or one that is gone on with. head: what holds now, whatever the targets are.

        Raises BadOption for a folder that is neither, and AnotherHead where it was begun under another head.
        """
        store = cls(path.resolve())
        try:
            store.path.mkdir(parents=True, exist_ok=True)
            if any(store.path.iterdir()) and not (store.path / TRIAGE_OPTIONS).is_file():
                raise BadOption(f"{path}: neither empty nor a triage; name another --out")
            store.refuse_another(head)
            store.failures.mkdir(exist_ok=True)
            store.write(store.path / TRIAGE_OPTIONS, {**asked, "head": wire.dump(head)})
        except OSError as error:
            advice = "name a folder you can write with --out"
            raise BadOption(f"{path}: {error.strerror or error}; {advice}") from error
        return store

    def refuse_another(self, head: Head) -> None:
        """Failures that were looked at under two heads would be clustered together."""
        file = self.path / TRIAGE_OPTIONS
        if not file.is_file() or not any(self.failures.glob("*/failure.json")):
            return
        began = json.loads(file.read_text()).get("head")
        changed: str | None = "it does not say under what it was begun"
        if began is not None:
            changed = wire.load(Head, began).changed("the target", head)
        if changed is not None:
            advice = "`--again` starts over, another --out begins beside it"
            raise AnotherHead(f"{self.path}: {changed}; {advice}")

    def start_over(self) -> None:
        """Forget every failure, if this is a triage."""
        if (self.path / TRIAGE_OPTIONS).is_file():
            shutil.rmtree(self.failures, ignore_errors=True)
            shutil.rmtree(self.clusters, ignore_errors=True)

    @property
    def failures(self) -> Path:
        return self.path / "failures"

    @property
    def clusters(self) -> Path:
        return self.path / "clusters"

    def known(self) -> dict[str, Looked]:
        """Every failure that was looked at, by its ID, in the order in which they were first seen."""
        files = self.failures.glob("*/failure.json")
        found = [Looked.from_json(json.loads(file.read_text())) for file in files]
        return {looked.id: looked for looked in sorted(found, key=lambda one: (one.first_seen, one.id))}

    def begin(self, failure: Failure, now: str) -> Looked:
        """The file of a failure that nobody looked at yet."""
        path = str(failure.path.absolute())  # a triage is gone on with from any folder
        nothing = Looked(failure.id, path, now, Outcome.UNRESOLVED, "unresolved", "", "")
        (self.failures / failure.id).mkdir(exist_ok=True)
        self.write(self.failures / failure.id / "failure.json", nothing.to_json())
        return nothing

    def read(self, failure_id: str) -> Looked:
        return Looked.from_json(json.loads((self.failures / failure_id / "failure.json").read_text()))

    def request(self, looked: Looked, asked: Mapping[str, Any]) -> Path:
        """The file that a job is started with."""
        file = self.failures / looked.id / "request.json"
        self.write(file, {**asked, "looked": looked.to_json()})
        return file

    def write(self, path: Path, value: Any) -> None:
        """A JSON file, whole or not at all. Raises CannotWrite."""
        RunDirectory(path.parent).write_json(path, value)

    def write_text(self, path: Path, text: str) -> None:
        """The same for text."""
        RunDirectory(path.parent).write_text(path, text)


def is_triage(path: str) -> bool:
    return (Path(path) / TRIAGE_OPTIONS).is_file()
