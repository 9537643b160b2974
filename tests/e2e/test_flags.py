"""`numbisect flags` on real scripts: what repairs, what brings it back, what makes the difference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
REMAT = ROOT / "repros" / "softmax_remat" / "case.py"
CONTRACTION = "inductor.cpp.enable_floating_point_contract_flag"
RECOMPUTATION = "inductor.realize_reads_threshold"


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bisector", "flags", *arguments, "-q"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)


def found(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    done = run(tmp_path, *arguments, "--out", str(tmp_path / "run"), "--json", "-")
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == result["exit_status"], done.stderr
    return result


@pytest.mark.slow
def test_either_of_two_flags_repairs_and_both_as_they_were_bring_it_back(tmp_path: Path) -> None:
    result = found(tmp_path, str(REMAT))
    fixes = {name for fix in result["fixes"] for name in fix["set"]}
    assert {CONTRACTION, RECOMPUTATION} <= fixes
    assert not fixes & {
        "inductor.cpp.simdlen",
        "inductor.max_fusion_size",
        "inductor.pattern_matcher",
        "inductor.unroll_reductions_threshold",
    }
    assert result["exit_status"] == 0
    [cause] = result["contrast"]["causes"]
    assert {CONTRACTION, RECOMPUTATION} <= cause.keys()
    assert all(name.startswith("inductor.realize_") for name in cause if name != CONTRACTION)
    assert all(fix["slowdown"] > 0 for fix in result["fixes"])
    assert {flag["told_by"] for flag in result["flags"]} == {"run", "code"}


def test_two_configurations_are_compared_in_both_directions(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(f"{CONTRACTION}: 'off'\ncpp.simdlen: 256\nmax_fusion_size: 32\n")
    contrast = found(tmp_path, str(REMAT), "--against", str(good))["contrast"]
    assert (contrast["with"], contrast["target"]) == ("good.yaml", "FAIL")
    assert contrast["repairs"] == [{CONTRACTION: "off"}]
    assert contrast["causes"] == [{CONTRACTION: "fast"}]


@pytest.mark.slow  # a second comparison
def test_a_target_that_agrees_is_compared_with_a_configuration_that_does_not(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(f"{CONTRACTION}: fast\nmax_fusion_size: 32\n")
    target = tmp_path / "agrees.py"
    source = REMAT.read_text()
    assert '"fast"' in source
    target.write_text(source.replace('"fast"', '"off"'))
    contrast = found(tmp_path, str(target), "--against", str(bad))["contrast"]
    assert (contrast["target"], contrast["causes"]) == ("PASS", [{CONTRACTION: "fast"}])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("- 1", "no flags in it"),
        ("a: [", "no YAML"),
        ("no_such_flag: 1", "this torch has no flag inductor.no_such_flag"),
    ],
)
def test_a_configuration_that_cannot_be_compared_is_one_line(
    tmp_path: Path, content: str | None, said: str
) -> None:
    other = tmp_path / "other.yaml"
    if content is not None:
        other.write_text(content)
    done = run(tmp_path, str(REMAT), "--against", str(other))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_option_of_the_catalogue_is_refused_beside_a_target(tmp_path: Path) -> None:
    done = run(tmp_path, str(REMAT), "--family", "fma")
    assert done.returncode == 2
    assert "--family is for the catalogue" in done.stderr
