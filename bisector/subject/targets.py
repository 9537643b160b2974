"""What the user named: a script, or what a fuzzer, torch or numbisect itself left of a failure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bisector.core.bundle import CASE, DESCRIPTION
from bisector.errors import BadTarget


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
        told = f"{path}: to load it is to run code that it may hold (pickle)"
        raise BadTarget(f"{told}; add --trust if you trust where it came from")
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
