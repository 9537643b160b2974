"""The Python of one build over the binary of another: on which side of two builds a change is.

Only what is on the Python side can be bisected by commits without a compiler. Whatever git tracks counts as
Python, headers with it, since they are read when a kernel is compiled; without a clone what is built is told
by its place in a wheel.
"""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisector.core.model import Outcome

from .line import Source
from .overlay import PACKAGES, from_elsewhere
from .predicate import CannotInstall, Interpreter

# What of a wheel its build made: libraries, and what setup.py and the code generators write.
BUILT = (
    "torch/lib",
    "torch/bin",
    "torch/share",
    "torch/version.py",
    "torch/testing/_internal/generated",
    "torchgen/packaged",
)
BUILT_SUFFIXES = (".so", ".pyi")


class Side(enum.Enum):
    """Which part of the later build brings the change."""

    PYTHON = "python"
    BINARY = "binary"
    EITHER = "either"
    BOTH = "both"


def side(newer_python: Outcome, newer_binary: Outcome) -> Side | None:
    """From the later Python over the earlier binary, and the earlier Python over the later binary; PASS as
    the earlier build, FAIL as the later one. None where one of them cannot tell."""
    return {
        (Outcome.FAIL, Outcome.PASS): Side.PYTHON,
        (Outcome.PASS, Outcome.FAIL): Side.BINARY,
        (Outcome.FAIL, Outcome.FAIL): Side.EITHER,
        (Outcome.PASS, Outcome.PASS): Side.BOTH,
    }.get((newer_python, newer_binary))


class Crossed:
    """Builds made of two of a source. folder: where their trees of links lie."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._parts: dict[str, tuple[str, str]] = {}

    def named(self, python: str, binary: str) -> str:
        """The name of the build that has the Python of one and the binary of the other."""
        name = f"the Python of {python} over {binary}"
        self._parts[name] = python, binary
        return name

    def identity(self, name: str) -> Mapping[str, Any]:
        python, binary = self._parts[name]
        return {"python": self._source.identity(python), "binary": self._source.identity(binary)}

    def commit(self, name: str) -> str | None:
        """It is of two."""
        return None

    def interpreter(self, name: str) -> Interpreter:
        python, binary = (self._source.interpreter(part) for part in self._parts[name])
        return crossed(python, binary, self._folder / name.replace(" ", "-"))

    def foresee(self, names: Sequence[str]) -> None:
        """Both parts were fetched before."""

    def strange(self, line: Mapping[str, Any]) -> str:
        return from_elsewhere(line, self._folder)

    def close(self) -> None:
        """The builds are the source's to close."""


def crossed(python: Interpreter, binary: Interpreter, folder: Path) -> Interpreter:
    """The binary's interpreter, with a tree of links in front that has the other's Python. Raises
    CannotInstall."""
    if not (python.python.exists() and binary.python.exists()):
        raise CannotInstall("two builds do not fit into the cache together; raise --cache-gib")
    shutil.rmtree(folder, ignore_errors=True)
    for package in PACKAGES:
        for name, site in _sides(package, python.site, binary.site):
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(site / name)
    return Interpreter(binary.python, folder, {**binary.variables, "PYTHONPATH": str(folder)})


def _sides(name: str, python: Path, binary: Path) -> Iterator[tuple[str, Path]]:
    """Each file of a folder with the site-packages that it comes from, or the folder where it is of one."""
    if is_built(name) or name == "torch/include":
        site = binary if is_built(name) else python
        if (site / name).exists():
            yield name, site
        return
    if not ((python / name).is_dir() or (binary / name).is_dir()):
        if (python / name).exists():
            yield name, python
        return
    for entry in sorted(_entries(python / name) | _entries(binary / name)):
        yield from _sides(f"{name}/{entry}", python, binary)


def _entries(folder: Path) -> set[str]:
    return set(os.listdir(folder)) - {"__pycache__"} if folder.is_dir() else set()


def is_built(name: str) -> bool:
    """Whether a file or folder of a wheel, named from site-packages on, is none that git tracks."""
    within = any(name == built or name.startswith(f"{built}/") for built in BUILT)
    return within or any(suffix in BUILT_SUFFIXES for suffix in Path(name).suffixes)
