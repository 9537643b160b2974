"""The next builds are fetched while one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from . import git_version
from .catalogue import BuildKind, Catalogue
from .environments import Environments
from .predicate import Interpreter, installed


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
        if wheel is None:
            return {"installed": self._version}
        return {"file": wheel.filename, "sha256": wheel.sha256, "stubs": self._environments.cpu_stubs}

    def commit(self, name: str) -> str | None:
        """Of a night, which may be the same as that of the night before; two releases never are of one."""
        build = self._catalogue.builds[name]
        if build.wheel is None or build.position.kind is not BuildKind.NIGHTLY or name in self._making:
            return None
        return git_version.in_wheel(build.wheel.url)

    def interpreter(self, name: str) -> Interpreter:
        """Raises CannotInstall. An environment that the limit of size removed meanwhile is made again."""
        wheel = self._catalogue.builds[name].wheel
        if wheel is None:
            return installed()
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


