"""The next builds are fetched while one runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .catalogue import Catalogue
from .environments import Environments
from .predicate import Interpreter


class Fetching:
    """The builds of a catalogue, each installed once. ahead: how many are before they are asked for."""

    def __init__(
        self, catalogue: Catalogue, environments: Environments, ahead: int, version: str | None
    ) -> None:
        self._catalogue = catalogue
        self._version = version  # of the torch that is installed here
        self._environments = environments
        self._ahead = ahead
        # One at a time: two downloads share the line, and both would count against the limit of size.
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._making: dict[str, Future[Interpreter]] = {}

    def identity(self, name: str) -> Mapping[str, Any]:
        wheel = self._catalogue.builds[name].wheel
        return {"file": wheel.filename, "sha256": wheel.sha256} if wheel else {"installed": self._version}

    def interpreter(self, name: str) -> Interpreter:
        """Raises CannotInstall. An environment that the limit of size removed meanwhile is made again."""
        wheel = self._catalogue.builds[name].wheel
        if wheel is None:
            return Interpreter(Path(sys.executable))
        made = self._making.pop(name, None)
        if made is not None and not made.cancel():
            found = made.result()
            if found.python.exists():
                return found
        return self._pool.submit(self._environments.interpreter, wheel).result()

    def foresee(self, names: Sequence[str]) -> None:
        """What is no longer among them and not begun is dropped."""
        wanted = {name: self._catalogue.builds[name].wheel for name in names[: self._ahead]}
        for name, future in list(self._making.items()):
            if name not in wanted and future.cancel():
                del self._making[name]
        for name, wheel in wanted.items():
            if wheel is not None and name not in self._making:
                self._making[name] = self._pool.submit(self._environments.interpreter, wheel)

    def strange(self, line: Mapping[str, Any]) -> str:
        """An environment has one torch."""
        return ""

    def close(self) -> None:
        """Waits for what is being made: an environment half written would be left behind."""
        self._pool.shutdown(wait=True, cancel_futures=True)


