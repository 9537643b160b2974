"""The commits of a clone as builds: the installed binary, with each commit's Python in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from git import Repo

from bisector.core.ladder import Bracket, Rung

from ..errors import BadOption
from .bounds import Bound, BoundKind
from .history import Commit, between, full_name
from .overlay import Overlay
from .predicate import Interpreter

MOST_TRIED = 16  # commits of a line that are each tried where all changes are asked for


class CommitLine:
    """The commits between two, those alone that an overlay can show."""

    name = "commits"

    def __init__(self, repo: Repo, before: str, after: str) -> None:
        self.before, self.after = full_name(repo, before), full_name(repo, after)
        self._commits = {commit.sha: commit for commit in between(repo, self.before, self.after)}
        self._order = list(dict.fromkeys([self.before, *self._commits, self.after]))
        self._repo = repo

    def find(self, bound: Bound) -> str:
        if bound.kind is not BoundKind.COMMIT:
            raise BadOption(f"{bound}: with --pytorch-repo both bounds are commits; write its hash")
        return full_name(self._repo, bound.text)

    def is_older(self, name: str, other: str) -> bool:
        return self._order.index(name) < self._order.index(other)

    def milestones(self, before: str | None, after: str) -> list[str]:
        inside = self._order[1:-1]
        return inside[:: max(1, -(-len(inside) // MOST_TRIED))]

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
        return ["whether C++ has a part in it: each commit's Python ran over the binary that is installed"]


class Overlaid:
    """The builds of such a line."""

    def __init__(self, overlay: Overlay, binary: Interpreter, version: str | None) -> None:
        self._overlay = overlay
        self._binary = binary
        self._version = version

    def identity(self, name: str) -> Mapping[str, Any]:
        return {"overlay": name, "on": self._version}

    def interpreter(self, name: str) -> Interpreter:
        return self._overlay.interpreter(self._binary.python, name)

    def foresee(self, names: Sequence[str]) -> None:
        """A checkout takes no time that could be saved."""

    def strange(self, line: Mapping[str, Any]) -> str:
        """Python takes another tree without a word where the path is wrong."""
        files = [line.get("file"), line.get("inductor")]
        if all(self._overlay.covers(file) for file in files if file):
            return ""
        return f"torch was imported from {line.get('file')}, not from the overlay"

    def close(self) -> None:
        """The checkout stays in the run directory, for whoever wants to look."""
