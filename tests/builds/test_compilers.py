"""`numbisect builds --cxx`: which of several C++ compilers shows a divergence. The compilers are g++ with an
option each.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builds.test_builds import VALIDATOR, run

SHIPPED = Path(__file__).parents[2] / "repros/softmax_fma/repro.py"
# Diverges where the compiler contracts a product and a difference into one instruction.
REPRO = """
import os, subprocess, sys, tempfile

with tempfile.TemporaryDirectory() as folder:
    source = os.path.join(folder, "a.cpp")
    with open(source, "w") as file:
        file.write("double f(double x, double y) { return x * y - x; }")
    command = [os.environ["CXX"], "-O2", "-mfma", "-ffp-contract=fast", "-S", "-o", "-", source]
    code = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
sys.exit(int(b"vfm" in code))
"""


@pytest.fixture
def repro(tmp_path: Path) -> Path:
    path = tmp_path / "repro.py"
    path.write_text(REPRO)
    return path


def compiler(folder: Path, name: str, option: str) -> str:
    """A program of that name: g++ with an option that is the last, and so holds."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" {option}\n')
    path.chmod(0o755)
    return str(path)


def asked(repro: Path, *compilers: str, folder: Path, status: int) -> dict[str, Any]:
    named = [word for name in compilers for word in ("--cxx", name)]
    done = run("builds", repro, *named, "--out", folder / "run", "--json", "-")
    assert done.returncode == status, done.stdout + done.stderr
    result = json.loads(done.stdout)
    VALIDATOR.validate(result)
    found: dict[str, Any] = result["builds"]
    return found


def test_the_compiler_that_shows_it_is_told_from_the_one_that_does_not(repro: Path, tmp_path: Path) -> None:
    contracts, separate = (
        compiler(tmp_path, name, option) for name, option in (("first", ""), ("second", "-ffp-contract=off"))
    )
    found = asked(repro, contracts, separate, folder=tmp_path, status=0)
    assert (found["looked_for"], found["answer"], found["confirmed"]) == ("compiler", "compiler", True)
    assert (found["before"]["name"], found["after"]["name"]) == (separate, contracts)
    assert [(build["name"], build["outcome"]) for build in found["tried"]] == [
        (contracts, "FAIL"), (separate, "PASS")
    ]
    text = run("report", tmp_path / "run").stdout
    assert f"diverges with {contracts} and agrees with {separate}" in " ".join(text.split())


def test_of_compilers_that_all_show_it_none_is_named(repro: Path, tmp_path: Path) -> None:
    both = [compiler(tmp_path, name, "") for name in ("first", "second")]
    found = asked(repro, *both, folder=tmp_path, status=1)
    assert (found["answer"], found["reason"]) == (None, "it diverges with each of them")


def test_a_compiler_that_does_not_work_is_not_said_to_agree(repro: Path, tmp_path: Path) -> None:
    broken = compiler(tmp_path, "broken", "--no-such-option")
    found = asked(repro, compiler(tmp_path, "works", ""), broken, folder=tmp_path, status=3)
    assert found["answer"] is None
    assert found["reason"].startswith(f"{broken} cannot tell")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cxx", "g++"], "name at least two compilers"),
        (["--cxx", "g++", "--cxx", "no-such-compiler"], "no-such-compiler: no such program"),
        (["--cxx", "g++", "--cxx", "c++", "--good", "2.11"], "leave out --good"),
        (["--cxx", "g++", "--cxx", "c++", "--find-fix"], "leave out --good"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(repro: Path, arguments: list[str], told: str) -> None:
    done = run("builds", repro, *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_repro_of_a_contraction_depends_on_the_compiler(tmp_path: Path) -> None:
    separate = compiler(tmp_path, "separate", "-ffp-contract=off")
    found = asked(SHIPPED, "g++", separate, folder=tmp_path, status=0)
    assert (found["before"]["name"], found["after"]["name"]) == (separate, "g++")
    assert found["moved"] == ["compiled"]
