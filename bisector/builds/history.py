"""The user's clone of PyTorch, which is never touched: its commits between two builds and what a reader wants
to know of each, clones of it that check them out, and the commit that a build says it was made of.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import requests
from git import BadName, GitCommandError, InvalidGitRepositoryError, NoSuchPathError, Repo
from remotezip import RemoteZip, RemoteZipError

from bisector.core.found_builds import Commit

from ..errors import BadOption, MissingTool
from .predicate import CannotInstall

_PULL = re.compile(r"^Pull Request resolved: \S+/pull/(\d+)", re.MULTILINE)
_PULL_IN_TITLE = re.compile(r"\(#(\d+)\)$")
_NIGHTLY = re.compile(r"^\S+ nightly release \(([0-9a-f]{40})\)")  # of the branch `nightly`
_REVERT = re.compile(r'^(?:\[?(?:back out|revert)\]?\b|Revert ")', re.IGNORECASE)
_RELAND = re.compile(r"^\[?(?:reland|reapply)\b", re.IGNORECASE)
INDUCTOR = "torch/_inductor/"


def opened(path: str) -> Repo:
    """The repository at that path. Raises BadOption where there is none, MissingTool where git is missing."""
    if shutil.which("git") is None:
        raise MissingTool("no git: commits are read with it; install it")
    try:
        return Repo(path)
    except (InvalidGitRepositoryError, NoSuchPathError) as error:
        raise BadOption(f"--pytorch-repo {path}: no git repository; name a clone of PyTorch") from error


def full_name(repo: Repo, commit: str) -> str:
    """The whole hash of a commit. Raises BadOption where the repository does not have it."""
    try:
        return str(repo.commit(commit).hexsha)
    except (BadName, ValueError) as error:
        advice = "fetch it, or name another clone with --pytorch-repo"
        raise BadOption(f"{commit}: not in {Path(repo.git_dir).parent}; {advice}") from error


def main_commit(repo: Repo, built: str) -> str:
    """The commit of the main line that a build is of: a nightly is of one on a branch of its own, whose
    message names it. Raises BadOption where the repository has neither."""
    sha = full_name(repo, built)
    named = _NIGHTLY.search(str(repo.commit(sha).message))
    return full_name(repo, named[1]) if named else sha


def between(repo: Repo, before: str, after: str, paths: Sequence[str]) -> list[Commit]:
    """The commits after `before` up to `after`, oldest first, that touch one of these paths, which are those
    that an overlay can replace.

    PyTorch's main line is squashed, so the first parents are its history. Raises BadOption where `before` is
    no ancestor of `after`: there is no line between them to bisect.
    """
    if not repo.is_ancestor(repo.commit(before), repo.commit(after)):
        raise BadOption(f"{before[:10]} is no ancestor of {after[:10]}; name two commits of one line")
    known = repo.iter_commits(f"{before}..{after}", paths=list(paths), first_parent=True, reverse=True)
    return [_described(repo, str(commit.hexsha), str(commit.message)) for commit in known]


def _described(repo: Repo, sha: str, message: str) -> Commit:
    title = message.split("\n", 1)[0]
    found = _PULL.search(message) or _PULL_IN_TITLE.search(title)
    note = "revert" if _REVERT.match(title) else "reland" if _RELAND.match(title) else ""
    return Commit(sha, title, int(found[1]) if found else None, note, _touches_inductor(repo, sha))


def _touches_inductor(repo: Repo, sha: str) -> bool:
    try:
        names: Sequence[str] = repo.git.show("--format=", "--name-only", sha).splitlines()
    except GitCommandError:
        return False
    return any(name.startswith(INDUCTOR) for name in names)


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


FILE = "torch/version.py"
TIMEOUT_S = 30.0
_GIT = re.compile(r"^git_version\s*(?::[^=]*)?=\s*['\"]([0-9a-f]{40})['\"]", re.MULTILINE)


def commit_of_site(site: Path) -> str | None:
    """Of the torch in a site-packages; None where it says none ("Unknown", as some nightlies did)."""
    version = site / FILE
    return _stated(version.read_text(encoding="utf-8")) if version.exists() else None


def commit_of_wheel(url: str) -> str | None:
    """Of a wheel on a server, by a few ranges of its bytes; None where the server gives no ranges, or what
    comes is no wheel of torch."""
    try:
        with RemoteZip(url.partition("#")[0], timeout=TIMEOUT_S) as wheel:
            return _stated(wheel.read(FILE).decode("utf-8", errors="replace"))
    except (RemoteZipError, BadZipFile, KeyError, requests.RequestException):
        return None


def _stated(text: str) -> str | None:
    found = _GIT.search(text)
    return found[1] if found else None
