"""What a search over builds needs of them, whether they are those of an index or the commits of a clone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bisector.core.found_builds import Commit
from bisector.core.ladder import Bracket, Rung

from .bounds import Bound
from .predicate import Interpreter


class Known(Protocol):
    """What is known of builds besides what they gave."""

    def precision(self, bracket: Bracket) -> str:
        """How near the ends of an answer are, in the words of the result."""
        ...

    def commits(self, bracket: Bracket) -> Sequence[Commit]:
        """Those after `before` up to `after`, as far as they are known."""
        ...

    def limits(self, bracket: Bracket) -> Sequence[str]:
        """What an answer from these builds does not establish."""
        ...


class Line(Known, Protocol):
    """A history of builds by name, oldest first."""

    def find(self, bound: Bound) -> str:
        """The name of the build that a user means. Raises BadOption where there is none."""
        ...

    def is_older(self, name: str, other: str) -> bool: ...

    def older(self, name: str) -> list[str]:
        """The builds before it over which a search walks back, oldest first."""
        ...

    def rungs(self) -> Sequence[Rung]:
        """The ladder, the coarsest first."""
        ...


class Source(Protocol):
    """Where the builds of a line come from."""

    def identity(self, name: str) -> Mapping[str, Any]:
        """What makes a build what it is, for the journal: a verdict of another one is not mixed in."""
        ...

    def commit(self, name: str) -> str | None:
        """The commit of a build, where that can be known without having the build."""
        ...

    def interpreter(self, name: str) -> Interpreter:
        """The Python that has the build. Raises CannotInstall."""
        ...

    def foresee(self, names: Sequence[str]) -> None:
        """These may be asked for next."""
        ...

    def strange(self, line: Mapping[str, Any]) -> str:
        """Why a run's line is not about the build that was meant; empty where it is."""
        ...

    def close(self) -> None: ...
