"""Commits built by the user's own command, for a change that no Python tree over another binary shows.

The rules are those of `git bisect run`: the command leaves an importable torch in the checkout that it is run
in and ends with 0; with 125, or any other status below 128, this commit cannot tell; a signal ends the
search. What a build leaves stays for the next one. The checkout is a clone of its own that shares the objects
of the user's, which is never touched.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from git import GitCommandError, Repo

from ..errors import BadOption, MissingTool
from .overlay import from_elsewhere, last_line
from .predicate import CannotInstall, Interpreter

STOPS = 128  # the status from which on `git bisect run` ends, too


class Built:
    """A source of builds. command: for a shell, run in the checkout; folder: for that; log: a file that takes
    what the builds say. Raises MissingTool where the checkout cannot be made."""

    def __init__(self, repo: Repo, command: str, folder: Path, log: Path) -> None:
        self._command = command
        self._folder = folder
        self._log = log
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self._clone = Repo.clone_from(
                str(repo.git_dir), str(folder), multi_options=["--shared", "--no-checkout"]
            )
        except GitCommandError as error:
            raise MissingTool(f"{folder}: git cannot make a checkout there: {last_line(error)}") from error

    def identity(self, name: str) -> Mapping[str, Any]:
        return {"commit": name, "built by": self._command}

    def commit(self, name: str) -> str | None:
        """A commit is its own name."""
        return name

    def interpreter(self, name: str) -> Interpreter:
        try:
            self._clone.git.checkout("--force", "--detach", name)
        except GitCommandError as error:
            raise CannotInstall(f"git cannot check out {name[:10]}: {last_line(error)}") from error
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"== {name}\n")
            log.flush()
            status = subprocess.run(
                self._command, shell=True, cwd=self._folder, stdout=log, stderr=log, check=False
            ).returncode
        if status < 0 or status >= STOPS:
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
