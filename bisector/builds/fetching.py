"""The next builds are fetched while one runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from .environments import Environments
from .index import Wheel
from .predicate import Interpreter


class Fetching:
    """Interpreters of builds, each made once. ahead: how many are made before they are asked for."""

    def __init__(self, environments: Environments, ahead: int) -> None:
        self._environments = environments
        self._ahead = ahead
        # One at a time: two downloads share the line, and both would count against the limit of size.
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._making: dict[str, Future[Interpreter]] = {}

    def interpreter(self, wheel: Wheel) -> Interpreter:
        """Raises CannotInstall. An environment that the limit of size removed meanwhile is made again."""
        made = self._making.pop(wheel.filename, None)
        if made is not None and not made.cancel():
            found = made.result()
            if found.python.exists():
                return found
        return self._pool.submit(self._environments.interpreter, wheel).result()

    def foresee(self, wheels: Sequence[Wheel]) -> None:
        """Those that may be asked for next; what is no longer among them and not begun is dropped."""
        wanted = {w.filename: w for w in wheels[: self._ahead]}
        for name, future in list(self._making.items()):
            if name not in wanted and future.cancel():
                del self._making[name]
        for name, wheel in wanted.items():
            if name not in self._making:
                self._making[name] = self._pool.submit(self._environments.interpreter, wheel)

    def close(self) -> None:
        """Waits for what is being made: an environment half written would be left behind."""
        self._pool.shutdown(wait=True, cancel_futures=True)


