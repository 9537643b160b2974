"""The failures below the paths that a user named, and what else lies there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.errors import BadTarget

from .targets import Target, recognise

# What never holds a failure: what tools keep beside one.
PASSED_OVER = frozenset({"__pycache__", ".git", ".hypothesis", ".pytest_cache", "storages", "node_modules"})
READ_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Failure:
    """id: a digest of all that its target holds, so that the same failure is known under another name."""

    id: str
    path: Path
    target: Target


@dataclass(frozen=True)
class Skipped:
    """What is no failure that numbisect can run, with the reason."""

    path: Path
    reason: str


def found(paths: Sequence[Path], trusted: bool) -> Iterator[Failure | Skipped]:
    """Each target below the paths, in the order of their names; links to folders are not followed."""
    for path in paths:
        if path.is_dir() and not _is_target(path):
            yield from _below(path, trusted)
        else:
            yield _one(path, trusted)


def _below(folder: Path, trusted: bool) -> Iterator[Failure | Skipped]:
    for where, folders, files in os.walk(folder):
        here = Path(where)
        inside = sorted(name for name in folders if name not in PASSED_OVER and not name.startswith("."))
        targets = [name for name in inside if _is_target(here / name)]
        folders[:] = [name for name in inside if name not in targets]
        for name in sorted([*targets, *files]):
            yield _one(here / name, trusted)


def _is_target(folder: Path) -> bool:
    try:
        return recognise(folder, trusted=True).path is not None
    except BadTarget:
        return False


def _one(path: Path, trusted: bool) -> Failure | Skipped:
    try:
        target = recognise(path, trusted)
        return Failure(_digest(path), path, target)
    except BadTarget as error:
        return Skipped(path, str(error))
    except OSError as error:  # a link that leads to itself, a file that may not be read
        return Skipped(path, f"{path}: {error.strerror}; nothing was read")


def _digest(path: Path) -> str:
    """Of the bytes of a file, or of the files that stand directly in a folder."""
    hasher = hashlib.sha256()
    for file in sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]:
        hasher.update(file.name.encode(errors="surrogateescape") if path.is_dir() else b"")
        with open(file, "rb") as stream:
            while block := stream.read(READ_AT_ONCE):
                hasher.update(block)
    return hasher.hexdigest()[:12]
