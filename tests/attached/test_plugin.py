"""The pytest plugin in real runs of pytest."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attached.helpers import run
from tests.command import numbisect

Pytest = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.usefixtures("warm_workers")

TESTS = """
import unittest

import pytest
import torch


def round_trip(x):
    return x.half().float() * 3


def folded(x):
    return x.abs() * 0


def test_fails_on_what_was_compiled():
    x = torch.rand(16)
    torch.testing.assert_close(torch.compile(round_trip)(x), round_trip(x))


def test_fails_by_the_fixture(numbisect_check):
    numbisect_check(round_trip, torch.rand(32))


def test_folds_a_constant():
    x = torch.tensor([1.0, float("nan")])
    torch.testing.assert_close(torch.compile(folded)(x), folded(x), equal_nan=True)


def test_passes(numbisect_check):
    numbisect_check(torch.relu, torch.rand(8))


def test_fails_without_torch_compile():
    torch.testing.assert_close(torch.ones(2), torch.zeros(2))


def test_fails_by_another_assertion():
    torch.compile(torch.relu)(torch.rand(8))
    assert 1 == 2


class TestOfUnittest(unittest.TestCase):
    def test_fails(self):
        x = torch.rand(64)
        torch.testing.assert_close(torch.compile(round_trip)(x), round_trip(x))


@pytest.fixture
def broken():
    raise RuntimeError("no such device")


def test_errors(broken):
    pass
"""


LEAVE = [
    "TestOfUnittest::test_fails",
    "test_fails_by_the_fixture",
    "test_fails_on_what_was_compiled",
    "test_folds_a_constant",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("project")
    (made / "test_it.py").write_text(TESTS)
    return made


@pytest.fixture
def pytest_in(folder: Path, warm_command: str) -> Pytest:
    """Runs pytest on these tests."""

    def pytest_in(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["-m", "pytest", "-p", "no:cacheprovider", *arguments, "test_it.py"]
        return run(warm_command, *command, folder=folder)

    return pytest_in


@pytest.mark.parametrize(
    "processes", [[], pytest.param(["-n", "2"], marks=pytest.mark.live)], ids=["alone", "xdist"]
)
def test_each_failure_on_compiled_outputs_leaves_a_bundle_and_no_other_does(
    pytest_in: Pytest, tmp_path: Path, processes: list[str]
) -> None:
    done = pytest_in("--numbisect=bundle", f"--numbisect-dir={tmp_path / 'left'}", *processes)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"6 failed, 1 passed, (\d+ warnings, )?1 error", done.stdout), done.stdout
    bundles = sorted(path.name.rpartition("-")[0] for path in (tmp_path / "left").iterdir())
    assert bundles == [f"test_it-py-{name.replace('::', '-')}" for name in LEAVE]
    lines = re.findall(r"^test_it\.py::([\w:]+): numbisect minimize (\S+)$", done.stdout, re.M)
    assert sorted(name for name, _ in lines) == LEAVE
    assert all(Path(path).is_dir() for _, path in lines)


@pytest.mark.live
def test_off_is_the_default_and_leaves_nothing(folder: Path, pytest_in: Pytest) -> None:
    done = pytest_in("-k", "by_the_fixture")
    assert done.returncode == 1
    assert "numbisect minimize" not in done.stdout
    assert {path.name for path in folder.iterdir()} <= {"test_it.py", "__pycache__"}


@pytest.mark.live
def test_the_answer_stands_beside_the_failure(pytest_in: Pytest, tmp_path: Path, warm: str) -> None:
    chosen = ("-k", "folds_a_constant")
    done = pytest_in("--numbisect=minimize", f"--numbisect-dir={tmp_path}", *chosen)
    assert done.returncode == 1
    assert "because of the constant folding of `mul`" in done.stdout
    assert "the script itself agrees with eager" in done.stdout, "a bundle is a script, run under the fix"
    (line,) = re.findall(r"^test_it\.py::test_folds_a_constant: (.*)$", done.stdout, re.M)
    assert re.fullmatch(r"compiled-worse; cfold:aten\.mul\S*.*; \S+repro\.py", line), line
    repro = line.rpartition("; ")[2]
    ended = [run(warm, repro, *given, folder=tmp_path) for given in ([], ["--fixed"])]
    assert [done.returncode for done in ended] == [1, 0]


@pytest.mark.live
def test_a_bundle_is_a_target_of_the_command(pytest_in: Pytest, tmp_path: Path) -> None:
    pytest_in("--numbisect=bundle", f"--numbisect-dir={tmp_path / 'left'}", "-k", "by_the_fixture")
    (bundle,) = (tmp_path / "left").iterdir()
    done = numbisect("check", bundle, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = numbisect("check", empty, folder=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "neither a bundle nor a run" in refused.stderr
