"""What holds for all tests: their order, one cache of kernels, one live run, and where random numbers begin.

Whole runs of numbisect come first, so that the processes that share the files end together (xdist's own order
is by the number of tests, and the longest files have the fewest). What looks at the one live run comes last
where it does not make it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisector import processes
from tests.live_run import LiveRun, live_run
from tests.warm import warm_modules, warm_python

# Folders with tests that take seconds each, those of the longest files first.
LONG = (
    "network", "replay", "faults", "e2e", "attached", "inductor", "builds", "subject", "gpu", "session",
    "runner", "tests",
)  # fmt: skip
KERNELS = "TORCHINDUCTOR_CACHE_DIR"
_made: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """A kernel that one test compiled is there for all: in xdist's processes and in what tests start."""
    if KERNELS not in os.environ:
        _made.append(tempfile.mkdtemp(prefix="numbisect-kernels-"))
        os.environ[KERNELS] = _made[0]


def pytest_unconfigure(config: pytest.Config) -> None:
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[KERNELS]
    _made.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return LONG.index(folder) if folder in LONG else len(LONG)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws is the same whichever tests ran before it in its process."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(zlib.crc32(item.nodeid.encode()))


def shared(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that the processes of xdist share."""
    base = factory.getbasetemp()
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    folder = (base if alone else base.parent) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveRun:
    """One whole run of a worked case."""
    return live_run(shared(tmp_path_factory, "live"))


@pytest.fixture(scope="module")
def warm_workers(warm_command: str) -> Iterator[None]:
    """The workers that numbisect starts in the process of these tests have torch imported."""

    def module(name: str, *arguments: str) -> list[str]:
        return [warm_command, *cold(name, *arguments)[1:]]

    cold = processes.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "module", module)
        yield


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An executable that is Python with torch imported."""
    return warm_python(shared(tmp_path_factory, "warm"))


@pytest.fixture(scope="session")
def warm_command(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same for modules, and a cold one for scripts: what numbisect watches must import torch itself."""
    return warm_modules(shared(tmp_path_factory, "warm"))
