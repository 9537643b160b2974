"""What the user named: a script, or what a fuzzer, torch or numbisect itself left of a failure; and the
failures below a folder, with what else lies there.
"""

from __future__ import annotations

import hashlib
import json
import os
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bisector.errors import BadTarget

from ..core.bundle_layout import CASE, DESCRIPTION
from ..core.own_folders import EVERY_RUN_SAYS, RUN_OPTIONS, TRIAGE_OPTIONS

# What never holds a failure: what tools keep next to one.
PASSED_OVER = frozenset({"__pycache__", ".git", ".hypothesis", ".pytest_cache", "storages", "node_modules"})
READ_AT_ONCE = 1 << 20


class TargetKind(Enum):
    """SCRIPT: a Python file: of a user, of torchfuzz, a repro of torch's, or one of numbisect's. EXPORTED: an
    archive of torch.export. NNSMITH: a bug directory of NNSmith."""

    SCRIPT = "script"
    EXPORTED = "exported"
    NNSMITH = "nnsmith"


@dataclass(frozen=True)
class Target:
    """path: what the worker runs."""

    kind: TargetKind
    path: Path


# Of a folder, the file in it that is meant: of a bundle, of a run, and of torch's minifier.
OF_A_FOLDER = (
    ((CASE, DESCRIPTION), CASE),
    (("repro.py",), "repro.py"),
    (("minifier_launcher.py",), "minifier_launcher.py"),
)
NNSMITH_FILES = ("model.pth", "gir.pkl", "oracle.pkl")
# Text by which a file is a repro of torch's whatever it is called: tlparse writes `fx_graph_runnable_0.txt`.
RUNS_REPRO = "import run_repro"
READ_BYTES = 4 << 20  # of a file, to look for it


def recognise(path: Path, trusted: bool = False) -> Target:
    """What a path is. trusted: whether it may be unpickled.

    Raises BadTarget for what numbisect cannot run, and for what it may not.
    """
    target = _target(path)
    if target.kind is not TargetKind.SCRIPT and not trusted:
        untrusted = f"{path}: to load it is to run code that it may hold (pickle)"
        raise BadTarget(f"{untrusted}; add --trust if you trust where it came from")
    return target


def _target(path: Path) -> Target:
    if path.is_dir():
        return _of_folder(path)
    if not path.is_file():
        raise BadTarget(f"{path}: no such file; name a Python script or module")
    if path.suffix == ".pt2":
        return Target(TargetKind.EXPORTED, path)
    if path.suffix != ".py" and not _runs_repro(path):
        raise BadTarget(f"{path}: not a Python script, nor anything else that numbisect can run")
    return Target(TargetKind.SCRIPT, path)


def _of_folder(path: Path) -> Target:
    if all((path / name).is_file() for name in NNSMITH_FILES):
        return Target(TargetKind.NNSMITH, path)
    for wanted, meant in OF_A_FOLDER:
        if all((path / name).is_file() for name in wanted):
            return Target(TargetKind.SCRIPT, path / meant)
    raise BadTarget(f"{path}: a folder that is neither a bundle nor a run with a repro; name a script in it")


def _runs_repro(path: Path) -> bool:
    with open(path, "rb") as file:
        return RUNS_REPRO.encode() in file.read(READ_BYTES)


def source_of(script: Path) -> str:
    """The text of a script as Python reads it, with a byte order mark or in the encoding that it names.

    Raises OSError, and UnicodeDecodeError or SyntaxError where it is in no encoding.
    """
    with tokenize.open(script) as file:
        return file.read()


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
    """Each target below the paths, in the order of their names; links to folders are not followed.

    Nothing below a triage is one, nor below a run, or what is found would be looked for anew without end; a
    run that is named itself stands for its repro.
    """
    for path in paths:
        if _is_triage(path):
            yield _own(path)
        elif path.is_dir() and not _is_target(path):
            yield from _below(path, trusted)
        else:
            yield _one(path, trusted)


def _below(folder: Path, trusted: bool) -> Iterator[Failure | Skipped]:
    for where, folders, files in os.walk(folder):
        here = Path(where)
        inside = sorted(name for name in folders if name not in PASSED_OVER and not name.startswith("."))
        own = [name for name in inside if _is_triage(here / name) or _is_run(here / name)]
        targets = [name for name in inside if name not in own and _is_target(here / name)]
        folders[:] = [name for name in inside if name not in (*own, *targets)]
        for name in sorted([*own, *targets, *files]):
            yield _own(here / name) if name in own else _one(here / name, trusted)


def _own(folder: Path) -> Skipped:
    return Skipped(folder, f"{folder}: numbisect itself wrote it; name what the fuzzer wrote")


def _is_triage(folder: Path) -> bool:
    return (folder / TRIAGE_OPTIONS).is_file()


def _is_run(folder: Path) -> bool:
    try:
        options = json.loads((folder / RUN_OPTIONS).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(options, dict) and options.keys() >= EVERY_RUN_SAYS


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
