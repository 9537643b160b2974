"""Commits built by the user's own command, for a change that no Python tree over another binary shows.

The rules are those of `git bisect run`: the command leaves an importable torch in the checkout that it is run
in and ends with 0; with 125, or any other status below 126, this commit cannot tell; a signal ends the
search, and so does a command that the shell cannot run. What a build leaves stays for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from git import Repo

from .. import processes
from ..errors import BadOption
from .checkout import check_out, clone_of
from .overlay import from_elsewhere
from .predicate import CannotInstall, Interpreter

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
