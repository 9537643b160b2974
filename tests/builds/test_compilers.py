"""`numbisect builds --cxx`: which of several C++ compilers shows a divergence. The compilers are g++ with an
option each, or two that are installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builds.test_builds import VALIDATOR
from tests.command import numbisect

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
    done = numbisect("builds", repro, *named, "--out", folder / "run", "--json", "-")
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
    assert found["compare"] is None, "the two are one build of torch"
    assert (found["before"]["name"], found["after"]["name"]) == (separate, contracts)
    assert [(build["name"], build["outcome"]) for build in found["tried"]] == [
        (contracts, "FAIL"), (separate, "PASS")
    ]
    text = numbisect("report", tmp_path / "run").stdout
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
    done = numbisect("builds", repro, *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.live
def test_a_repro_of_a_contraction_depends_on_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each run has a cache of its own; that both compilers know this processor's vectors is not asked in each.
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")
    separate = compiler(tmp_path, "separate", "-ffp-contract=off")
    found = asked(SHIPPED, "g++", separate, folder=tmp_path, status=0)
    assert (found["before"]["name"], found["after"]["name"]) == (separate, "g++")
    assert found["moved"] == ["compiled"]


# g++ sums the lanes of a vector by torch's shuffles, clang++ one after the other, as it calls itself GCC 4
# (VecReduceAllSIMD in ATen/cpu/vec/functional_base.h). Two large terms cancel, and what is added between them
# is lost: on AVX-512 g++ gives what eager does and clang++ does not, on AVX2 the other way about.
SUM = """
import sys

import torch


def total(x):
    return x.sum()


torch.manual_seed(0)
x = torch.randn(16)
first, second = (0, 8) if "512" in torch.backends.cpu.get_cpu_capability() else (0, 1)
x[first], x[second] = 3e7, -3e7
expected, actual = total(x), torch.compile(total)(x)
print(expected.item(), actual.item())
sys.exit(int((expected - actual).abs() > 0.5))
"""


@pytest.mark.compilers
def test_of_the_installed_compilers_those_that_show_it_are_those_with_which_plain_torch_does(
    tmp_path: Path,
) -> None:
    script = tmp_path / "total.py"
    script.write_text(SUM)
    names = ("g++", "clang++")
    statuses = {}
    for name in names:
        caches = {"CXX": name, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / name)}
        done = subprocess.run([sys.executable, script], env={**os.environ, **caches}, check=False)
        statuses[name] = done.returncode
    assert sorted(statuses.values()) == [0, 1]
    agrees, diverges = sorted(statuses, key=statuses.__getitem__)
    found = asked(script, *names, folder=tmp_path, status=0)
    assert (found["before"]["name"], found["after"]["name"]) == (agrees, diverges)
    assert found["confirmed"]
