"""One environment for each build: made by uv, hard-linked from its cache, under a limit of size.

An environment is made under a temporary name, then renamed, so that an interrupted one is never used.
Where uv is missing, venv and pip do the same, slower and with a copy for each build.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement

from .. import processes
from ..errors import MissingTool
from . import history, stubs
from .catalogue import BuildKind, Catalogue
from .index import TIMEOUT_S, Wheel
from .predicate import CannotInstall, Interpreter, installed

MADE = "made"  # a file in an environment that is whole; its time is that of the last use
# What torch uses where it is there, without asking for it: tensors from arrays, and in old releases Inductor.
WANTED = ("numpy", "setuptools")
# A release runs with the companions of its day: numpy below 2, setuptools below 70 for old ones.
GRACE = timedelta(days=1)
# What a CUDA wheel asks for, that stubs stand in for or that a CPU has no use of.
OF_CUDA = re.compile(r"nvidia-|cuda-|(pytorch-)?triton\b")
STUBS = "stubs"  # the folder of an environment that has them
NO_SPACE = os.strerror(errno.ENOSPC)  # as uv and pip say it, too
INSTALL_S = 3600.0  # two gigabytes over a slow line
LAST_WORDS = 300  # characters of an installer's output that are reported


class Installer:
    """Runs the programs that install, one after the other, until it is interrupted from another thread."""

    def __init__(self) -> None:
        self.interrupted = False
        self._lock = threading.Lock()
        self._running: processes.Started | None = None

    def run(self, command: Sequence[str]) -> None:
        """Raises CannotInstall."""
        with self._lock:
            if self.interrupted:
                raise CannotInstall("interrupted")
            self._running = processes.start(command, capture=True)
        done = self._running.wait(INSTALL_S)
        with self._lock:
            self._running = None
        if self.interrupted:
            raise CannotInstall("interrupted")
        if done.status != 0:
            output = " ".join((done.err or done.out).split())
            raise CannotInstall(output[-LAST_WORDS:] or f"{command[0]}: {done.how}")

    def interrupt(self) -> None:
        """What runs is ended, and nothing is run after it."""
        with self._lock:
            self.interrupted = True
            if self._running is not None:
                self._running.kill()


@dataclass
class Environments:
    """folder: holds them, one for each wheel. limit: bytes that they may take together; the one that was
    used longest ago goes first. cpu_stubs: NVIDIA's libraries are not installed, stubs stand in for them.
    in_use: the one that was asked for last, which stays whatever is made ahead meanwhile."""

    folder: Path
    limit: int
    cpu_stubs: bool = False
    uv: str | None = field(default_factory=lambda: processes.program("uv"))
    installer: Installer = field(default_factory=Installer)
    in_use: Path | None = None
    removing: threading.Lock = field(default_factory=threading.Lock)

    def interpreter(self, wheel: Wheel, ahead: bool = False) -> Interpreter:
        """The Python of the build's environment, made where it is not there. ahead: before it is asked for.
        Raises CannotInstall, and MissingTool where the machine is at fault."""
        place = self.folder / f"{wheel.version}{'-stubs' if self.cpu_stubs else ''}"
        if not (place / MADE).exists():
            self._make(wheel, place)
        with self.removing:
            (place / MADE).touch()
            if not ahead:
                self.in_use = place
            self._keep_within(place)
        return Interpreter(place / "bin" / "python", _packages(place), self._variables(place))

    def take(self, made: Interpreter) -> bool:
        """Whether one that was made ahead is still there; from now on it is the one in use."""
        with self.removing:
            if not made.python.exists():
                return False
            self.in_use = made.python.parents[1]
            return True

    def _variables(self, place: Path) -> dict[str, str]:
        if not self.cpu_stubs:
            return {}
        users = os.environ.get("LD_LIBRARY_PATH", "")
        return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(place / STUBS), users]))}

    def _make(self, wheel: Wheel, place: Path) -> None:
        unfinished = place.with_name(f"{place.name}.new")
        for folder in (unfinished, place):
            shutil.rmtree(folder, ignore_errors=True)
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            python = str(unfinished / "bin" / "python")
            self._create(unfinished)
            self._install(python, ["--no-deps", _direct(wheel)])
            if required := self._companions(unfinished):
                self._install(python, [*required, *WANTED, *self._from(wheel)])
            if self.cpu_stubs:
                stubs.make(_packages(unfinished), unfinished / STUBS)
            (unfinished / MADE).touch()
            unfinished.rename(place)
        except (CannotInstall, OSError) as error:
            why = f"{place}: {error.strerror}" if isinstance(error, OSError) else str(error)
            if not self.installer.interrupted:
                self._check_machine(wheel, why)
            raise CannotInstall(why) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _check_machine(self, wheel: Wheel, why: str) -> None:
        """What the machine lacks is no fault of this build: every other one would fail of it, too. Raises
        MissingTool, and what is asked again after that starts afresh."""
        if NO_SPACE in why:
            advice = "free some, or lower --cache-gib, then `numbisect resume`"
            raise MissingTool(f"{self.folder}: {NO_SPACE.lower()}; {advice}")
        try:
            requests.head(wheel.url.partition("#")[0], timeout=TIMEOUT_S)
        except requests.RequestException as lost:
            advice = "check the network, then `numbisect resume`"
            raise MissingTool(f"{wheel.index}: the index is gone; {advice}") from lost

    def _create(self, folder: Path) -> None:
        with_uv = ["venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)]
        without = [sys.executable, "-m", "venv", "--copies", str(folder)]
        self.installer.run([self.uv, *with_uv] if self.uv else without)

    def _install(self, python: str, what: Sequence[str]) -> None:
        with_uv = ["pip", "install", "--quiet", "--python", python, *what]
        without = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
        self.installer.run([self.uv, *with_uv] if self.uv else without)

    def _companions(self, environment: Path) -> list[str]:
        """What the installed wheel asks for on this machine, extras left out."""
        found = next(_packages(environment).glob("torch-*.dist-info"))
        asked = map(Requirement, metadata.PathDistribution(found).requires or ())
        meant = [r for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]
        return [str(r) for r in meant if not (self.cpu_stubs and OF_CUDA.match(r.name))]

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
        """Remove environments until the rest takes no more than the limit; this one stays, and the one in
        use."""
        made = sorted(self.folder.glob(f"*/{MADE}"), key=lambda mark: mark.stat().st_mtime)
        sizes = {mark.parent: _bytes_in(mark.parent) for mark in made}
        for place in [p for p in sizes if p not in (used, self.in_use)]:
            if sum(sizes.values()) <= self.limit:
                return
            shutil.rmtree(place)
            del sizes[place]


def _direct(wheel: Wheel) -> str:
    """The very file, so that neither a label nor a build tag is chosen anew, with the hash to check."""
    digest = f"#sha256={wheel.sha256}" if wheel.sha256 else ""
    return f"torch @ {wheel.url.partition('#')[0]}{digest}"


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def _bytes_in(folder: Path) -> int:
    """Bytes on disk that this folder alone holds: a file that is linked from a cache costs nothing here."""
    held = 0
    for root, _, names in os.walk(folder):
        for name in names:
            found = os.lstat(os.path.join(root, name))
            held += found.st_blocks * 512 if found.st_nlink == 1 else 0
    return held


class Fetching:
    """The builds of a catalogue, each installed once. ahead: how many are before they are asked for."""

    def __init__(
        self, catalogue: Catalogue, environments: Environments, ahead: int, version: str | None
    ) -> None:
        self._catalogue = catalogue
        self._version = version  # of the torch that is installed here
        self._environments = environments
        self._ahead = ahead
        # One at a time: two downloads share the line, and both would count against the limit of size.
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._making: dict[str, Future[Interpreter]] = {}

    def identity(self, name: str) -> Mapping[str, Any]:
        wheel = self._catalogue.builds[name].wheel
        if wheel is None:
            return {"installed": self._version}
        return {"file": wheel.filename, "sha256": wheel.sha256, "stubs": self._environments.cpu_stubs}

    def commit(self, name: str) -> str | None:
        """Of a night, which may be the same as that of the night before; two releases never are of one."""
        build = self._catalogue.builds[name]
        if build.wheel is None or build.position.kind is not BuildKind.NIGHTLY or name in self._making:
            return None
        return history.commit_of_wheel(build.wheel.url)

    def interpreter(self, name: str) -> Interpreter:
        """Raises CannotInstall. An environment that the limit of size removed meanwhile is made again."""
        wheel = self._catalogue.builds[name].wheel
        if wheel is None:
            return installed()
        made = self._making.pop(name, None)
        if made is not None and not made.cancel():
            found = made.result()
            if self._environments.take(found):
                return found
        return self._pool.submit(self._environments.interpreter, wheel).result()

    def foresee(self, names: Sequence[str]) -> None:
        """What is no longer among them and not begun is dropped."""
        wanted = {name: self._catalogue.builds[name].wheel for name in names[: self._ahead]}
        for name, future in list(self._making.items()):
            if name not in wanted and future.cancel():
                del self._making[name]
        for name, wheel in wanted.items():
            if wheel is not None and name not in self._making:
                self._making[name] = self._pool.submit(self._environments.interpreter, wheel, ahead=True)

    def strange(self, line: Mapping[str, Any]) -> str:
        """An environment has one torch."""
        return ""

    def close(self) -> None:
        """What is being installed is ended, not waited for; what it had written of an environment goes with
        it."""
        self._environments.installer.interrupt()
        self._pool.shutdown(wait=True, cancel_futures=True)
