"""Commits as builds: the installed binary with each commit's Python in front of it; or, for a change that no
such pair shows, each commit built by the user's own command.

The command's rules are those of `git bisect run`: it leaves an importable torch in the checkout that it is
run in and ends with 0; with 125, or any other status below 126, this commit cannot tell; a signal ends the
search, and so does a command that the shell cannot run. What a build leaves stays for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from git import Repo

from bisector.core.ladder import Bracket, Rung

from .. import processes
from ..errors import BadOption
from .bounds import Bound, BoundKind
from .history import Commit, between, check_out, clone_of, full_name
from .overlay import TRACKED, Overlay, from_elsewhere
from .predicate import CannotInstall, Interpreter

MOST_TRIED = 16  # commits of a line that are each tried where all changes are asked for


class CommitLine:
    """The commits between two that touch these paths. limit: what an answer from them does not establish."""

    name = "commits"

    def __init__(
        self,
        repo: Repo,
        before: str,
        after: str,
        paths: Sequence[str] = TRACKED,
        limit: str | None = "whether C++ has a part in it: each commit's Python ran over one binary",
    ) -> None:
        self.before, self.after = full_name(repo, before), full_name(repo, after)
        self._commits = {commit.sha: commit for commit in between(repo, self.before, self.after, paths)}
        self._limits = [limit] if limit else []
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
        return self._limits


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


STOPS = 126  # of a shell: it cannot run the command (126, 127), or a signal ended that (128 and more)


class Built:
    """A source of builds. command: for a shell, run in the checkout; folder: for that; log: a file that takes
    what the builds say; commit: to begin with. Raises MissingTool where the checkout cannot be made."""

    def __init__(self, repo: Repo, command: str, folder: Path, log: Path, commit: str) -> None:
        self._command = command
        self._folder = folder
        self._log = log
        self._clone = clone_of(repo, folder, commit)

    def identity(self, name: str) -> Mapping[str, Any]:
        return {"commit": name, "built by": self._command}

    def commit(self, name: str) -> str | None:
        """A commit is its own name."""
        return name

    def interpreter(self, name: str) -> Interpreter:
        check_out(self._clone, name)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"== {name}\n")
            log.flush()
            # Without a limit: a build of torch takes hours, and only the user knows how many.
            done = processes.start(["/bin/sh", "-c", self._command], folder=self._folder, log=log).wait(None)
        status = done.status
        if status is None or status < 0 or status >= STOPS:
            raise BadOption(f"--build-command ended with status {status}; {self._log} has what it said")
        if status:
            raise CannotInstall(f"the build command ended with status {status}; {self._log} has what it said")
        return Interpreter(Path(sys.executable), self._folder, {"PYTHONPATH": str(self._folder)})

    def foresee(self, names: Sequence[str]) -> None:
        """One checkout has one commit."""

    def strange(self, line: Mapping[str, Any]) -> str:
        return from_elsewhere(line, self._folder)

    def close(self) -> None:
        """The checkout stays in the run directory, with the build of the last commit."""
