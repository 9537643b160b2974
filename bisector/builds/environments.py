"""One environment for each build: made by uv, hard-linked from its cache, under a limit of size.

An environment is made beside and moved to its place, so that one whose making was interrupted is never used.
Where uv is missing, venv and pip do the same, slower and with a copy for each build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from .index import Wheel
from .predicate import Interpreter

MADE = "made"  # a file in an environment that is whole; its time is that of the last use
# What torch uses where it is there, without asking for it: tensors from arrays, and in old releases Inductor.
WANTED = ("numpy", "setuptools")
# A release runs with the companions of its day: numpy below 2, setuptools below 70 for old ones.
GRACE = timedelta(days=1)
LAST_WORDS = 300  # characters of what an installer said that are told


class CannotInstall(Exception):
    """This build cannot be had: a broken archive, a wrong hash, no room. The message is one line."""


def uv_path() -> str | None:
    """The uv that came with numbisect, or the user's own; None where there is neither."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("uv", path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))


@dataclass
class Environments:
    """folder: holds them, one for each wheel. limit: bytes that they may take together; the one that was
    used longest ago goes first."""

    folder: Path
    limit: int
    uv: str | None = field(default_factory=uv_path)

    def interpreter(self, wheel: Wheel) -> Interpreter:
        """The Python of the build's environment, made where it is not there. Raises CannotInstall."""
        place = self.folder / str(wheel.version)
        if not (place / MADE).exists():
            self._make(wheel, place)
        (place / MADE).touch()
        self._keep_within(place)
        return Interpreter(place / "bin" / "python")

    def _make(self, wheel: Wheel, place: Path) -> None:
        unfinished = place.with_name(f"{place.name}.new")
        for folder in (unfinished, place):
            shutil.rmtree(folder, ignore_errors=True)
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            python = str(unfinished / "bin" / "python")
            self._create(unfinished)
            self._install(python, ["--no-deps", _direct(wheel)])
            if required := _requirements(unfinished):
                self._install(python, [*required, *WANTED, *self._from(wheel)])
            (unfinished / MADE).touch()
            unfinished.rename(place)
        except OSError as error:
            raise CannotInstall(f"{place}: {error.strerror}") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _create(self, folder: Path) -> None:
        if self.uv:
            _run([self.uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)])
        else:
            _run([sys.executable, "-m", "venv", "--copies", str(folder)])

    def _install(self, python: str, what: Sequence[str]) -> None:
        if self.uv:
            _run([self.uv, "pip", "install", "--quiet", "--python", python, *what])
        else:
            _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what])

    def _from(self, wheel: Wheel) -> list[str]:
        """Where companions come from: the public index and the wheel's own, which has what nightlies pin.

        pip has no option that keeps later companions out, and an index may not know the day.
        """
        options = ["--extra-index-url", wheel.index]
        if self.uv:
            options += ["--index-strategy", "unsafe-best-match"]
            if wheel.uploaded is not None:
                options += ["--exclude-newer", (wheel.uploaded + GRACE).strftime("%Y-%m-%dT%H:%M:%SZ")]
        return options

    def _keep_within(self, used: Path) -> None:
        """Remove environments until the rest takes no more than the limit; the one in use stays."""
        made = sorted(self.folder.glob(f"*/{MADE}"), key=lambda mark: mark.stat().st_mtime)
        sizes = {mark.parent: _bytes_in(mark.parent) for mark in made}
        for place in [p for p in sizes if p != used]:
            if sum(sizes.values()) <= self.limit:
                return
            shutil.rmtree(place)
            del sizes[place]


def _direct(wheel: Wheel) -> str:
    """The very file, so that neither a label nor a build tag is chosen anew, with the hash to check."""
    digest = f"#sha256={wheel.sha256}" if wheel.sha256 else ""
    return f"torch @ {wheel.url.partition('#')[0]}{digest}"


def _requirements(environment: Path) -> list[str]:
    """What the installed wheel asks for on this machine, extras left out."""
    found = next(environment.glob("lib/python*/site-packages/torch-*.dist-info"))
    asked = map(Requirement, metadata.PathDistribution(found).requires or ())
    return [str(r) for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise CannotInstall(said[-LAST_WORDS:] or f"{command[0]} ended with status {done.returncode}")


def _bytes_in(folder: Path) -> int:
    """Bytes on disk that this folder alone holds: a file that is linked from a cache costs nothing here."""
    held = 0
    for root, _, names in os.walk(folder):
        for name in names:
            found = os.lstat(os.path.join(root, name))
            held += found.st_blocks * 512 if found.st_nlink == 1 else 0
    return held
