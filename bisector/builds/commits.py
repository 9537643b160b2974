"""Commits as builds: a binary build of PyTorch with each commit's Python in front of it.

Inductor, Dynamo, functorch and the decompositions are Python, and the headers of vectors are read when a
kernel is compiled, so a commit that touches nothing else needs no build. What git tracks comes from the
checkout and all else from the build, whatever a file's ending says: there are generated Python files, and
templates that are sources. The checkout is a clone of its own that shares the objects of the user's, which is
never touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from git import Repo

from bisector.core.found_builds import Commit
from bisector.core.ladder import Bracket, Rung

from ..errors import BadOption
from .bounds import Bound, BoundKind
from .history import between, check_out, clone_of, full_name
from .predicate import Interpreter

PACKAGES = ("torch", "torchgen", "functorch")
INCLUDE = "torch/include"
# Where the headers that generated code includes lie in the sources, and where in a build.
HEADERS = {
    "aten/src/ATen": f"{INCLUDE}/ATen",
    "c10": f"{INCLUDE}/c10",
    "torch/csrc": f"{INCLUDE}/torch/csrc",
    "torch/headeronly": f"{INCLUDE}/torch/headeronly",
}
CLOCK_TICK_S = 0.02  # by so much the time that a file is given can lie behind the clock (at most 1/100 s)
TRACKED = (*PACKAGES, *HEADERS)  # what of the sources an overlay can replace


class Overlay:
    """folder: for the checkout; binary: the build; base: a commit whose list of files says what is tracked.
    Raises MissingTool where the checkout cannot be made."""

    def __init__(self, repo: Repo, binary: Interpreter, folder: Path, base: str) -> None:
        self.folder = folder
        self._binary = binary
        self._site = binary.site
        self._clone = clone_of(repo, folder, base, only=TRACKED)
        listed = self._clone.git.ls_tree("-r", "--name-only", base, "--", *TRACKED)
        self._tracked = set(listed.splitlines())
        self._holding = {str(parent) for name in self._tracked for parent in Path(name).parents}
        self._written = int(time.time())  # the second of the last checkout
        self._links = dict(self._all_links())

    def interpreter(self, commit: str) -> Interpreter:
        """The build's Python with that commit's tree in front. Raises CannotInstall where git refuses."""
        self._let_a_second_pass()
        check_out(self._clone, commit)
        self._written = int(time.time())  # by now: a checkout may end in a later second than it began
        for link, target in self._links.items():
            if not os.path.lexists(link):  # a checkout removes what a commit between had in its place
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target)
        variables = {"PYTHONPATH": str(self.folder)}
        return Interpreter(self._binary.python, self.folder, {**self._binary.variables, **variables})

    def _let_a_second_pass(self) -> None:
        """Python knows a compiled file by its size and the second of its time: one that is written twice in
        that second, with a digit changed, would be taken for the former."""
        now = time.time()
        if int(now) == self._written:
            time.sleep(1 - now % 1 + CLOCK_TICK_S)

    def _all_links(self) -> Iterator[tuple[Path, Path]]:
        for package in PACKAGES:
            if (self._site / package).is_dir():
                yield from self._mirrored(package)
        if self._has_headers():
            yield from self._headers()

    def _mirrored(self, name: str) -> Iterator[tuple[Path, Path]]:
        """Links for what of a folder of the build is not tracked; the whole folder where nothing in it is."""
        if name == INCLUDE and self._has_headers():
            return
        if name not in self._holding:
            yield self.folder / name, self._site / name
            return
        for entry in os.scandir(self._site / name):
            inner = f"{name}/{entry.name}"
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from self._mirrored(inner)
            elif inner not in self._tracked:
                yield self.folder / inner, self._site / inner

    def _has_headers(self) -> bool:
        return any(source in self._holding for source in HEADERS)

    def _headers(self) -> Iterator[tuple[Path, Path]]:
        """The build's headers, each a link: to the checkout where the sources have it, else to the build."""
        for root, _, names in os.walk(self._site / INCLUDE):
            for name in names:
                file = Path(root, name)
                inside = file.relative_to(self._site).as_posix()
                source = _source_of(inside)
                yield self.folder / inside, self.folder / source if source in self._tracked else file


def from_elsewhere(line: Mapping[str, Any], folder: Path) -> str:
    """Why a run was not about the tree in that folder, empty where it was: where a path is wrong, Python
    takes another tree without a word. line: what the driver printed."""
    files = [line.get("file"), line.get("inductor")]
    if all(Path(file).is_relative_to(folder) for file in files if file):
        return ""
    return f"torch was imported from {line.get('file')}, not from the overlay"


def _source_of(header: str) -> str:
    """Where the sources have a header of a build; its own place where they have it nowhere."""
    for source, place in HEADERS.items():
        if header.startswith(f"{place}/"):
            return source + header.removeprefix(place)
    return header


class CommitLine:
    """The commits between two that touch what lies over a binary."""

    name = "commits"

    def __init__(self, repo: Repo, before: str, after: str) -> None:
        self.before, self.after = full_name(repo, before), full_name(repo, after)
        self._commits = {commit.sha: commit for commit in between(repo, self.before, self.after, TRACKED)}
        self._order = list(dict.fromkeys([self.before, *self._commits, self.after]))
        self._repo = repo

    def find(self, bound: Bound) -> str:
        if bound.kind is not BoundKind.COMMIT:
            raise BadOption(f"{bound}: with --pytorch-repo both bounds are commits; write its hash")
        return full_name(self._repo, bound.text)

    def is_older(self, name: str, other: str) -> bool:
        return self._order.index(name) < self._order.index(other)

    def older(self, name: str) -> list[str]:
        return self._order[: self._order.index(name)]

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
        return ["whether C++ has a part in it: each commit's Python ran over one binary"]


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
