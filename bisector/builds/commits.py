"""Commits as builds: a binary with each commit's Python in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from git import Repo

from bisector.core.found_builds import Commit
from bisector.core.ladder import Bracket, Rung

from ..errors import BadOption
from .bounds import Bound, BoundKind
from .history import between, full_name
from .overlay import TRACKED, Overlay, from_elsewhere
from .predicate import Interpreter


class CommitLine:
    """The commits between two that touch what lies over a binary."""

    name = "commits"

    def __init__(self, repo: Repo, before: str, after: str) -> None:
        self.before, self.after = full_name(repo, before), full_name(repo, after)
        self._commits = {commit.sha: commit for commit in between(repo, self.before, self.after, TRACKED)}
        self._order = list(dict.fromkeys([self.before, *self._commits, self.after]))
        self._repo = repo

    def find(self, bound: Bound) -> str:
        if bound.kind is not BoundKind.COMMIT:
            raise BadOption(f"{bound}: with --pytorch-repo both bounds are commits; write its hash")
        return full_name(self._repo, bound.text)

    def is_older(self, name: str, other: str) -> bool:
        return self._order.index(name) < self._order.index(other)

    def older(self, name: str) -> list[str]:
        return self._order[: self._order.index(name)]

    def rungs(self) -> list[Rung]:
        return [self]

    def between(self, bracket: Bracket) -> list[str]:
        """As a rung: the commits between the two ends."""
        return self._order[self._order.index(bracket.before) + 1 : self._order.index(bracket.after)]

    def precision(self, bracket: Bracket) -> str:
        return "commit range" if self.between(bracket) else "exact commit"

    def commits(self, bracket: Bracket) -> list[Commit]:
        """Where more than one is left, those that touch Inductor first."""
        names = [*self.between(bracket), bracket.after]
        known = [self._commits[name] for name in names if name in self._commits]
        return sorted(known, key=lambda commit: not commit.inductor)

    def limits(self, bracket: Bracket) -> list[str]:
        return ["whether C++ has a part in it: each commit's Python ran over one binary"]


class Overlaid:
    """The builds of such a line. binary: what makes the build that is under them what it is."""

    def __init__(self, overlay: Overlay, binary: Mapping[str, Any]) -> None:
        self._overlay = overlay
        self._binary = binary

    def identity(self, name: str) -> Mapping[str, Any]:
        return {"overlay": name, "on": self._binary}

    def commit(self, name: str) -> str | None:
        """A commit is its own name."""
        return name

    def interpreter(self, name: str) -> Interpreter:
        return self._overlay.interpreter(name)

    def foresee(self, names: Sequence[str]) -> None:
        """A checkout takes no time that could be saved."""

    def strange(self, line: Mapping[str, Any]) -> str:
        return from_elsewhere(line, self._overlay.folder)

    def close(self) -> None:
        """The checkout stays in the run directory, for whoever wants to look."""
