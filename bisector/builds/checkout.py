"""Checkouts of the user's clone, which is never touched: clones of it that share its objects."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from git import GitCommandError, Repo

from ..errors import MissingTool
from .predicate import CannotInstall


def clone_of(repo: Repo, folder: Path, commit: str, only: Sequence[str] = ()) -> Repo:
    """A clone in that folder, which is made anew, with a commit checked out. only: folders of the sources
    that it has, none: all. Raises MissingTool."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        options = ["--shared", "--no-checkout"]
        clone = Repo.clone_from(str(repo.git_dir), str(folder), multi_options=options)
        if only:
            clone.git.execute(["git", "sparse-checkout", "set", *only])
        clone.git.checkout("--force", "--detach", commit)
    except GitCommandError as error:
        raise MissingTool(f"{folder}: git cannot make a checkout there: {_last_line(error)}") from error
    return clone


def check_out(clone: Repo, commit: str) -> None:
    """Another commit in such a clone; what git does not track stays. Raises CannotInstall."""
    try:
        clone.git.checkout("--force", "--detach", commit)
    except GitCommandError as error:
        raise CannotInstall(f"git cannot check out {commit[:10]}: {_last_line(error)}") from error


def _last_line(error: GitCommandError) -> str:
    lines = str(error.stderr).strip().strip("'").splitlines()
    return lines[-1].strip() if lines else f"status {error.status}"
