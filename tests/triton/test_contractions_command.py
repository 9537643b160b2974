"""`numbisect contractions`: what a user reads of a script's code for a GPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.triton.test_triton_hooks import ROOT, pytestmark  # noqa: F401 - the same is needed

pytest.importorskip("triton", reason="Triton is not installed: no code of its backend can be generated")

SEED = """
import torch

def program(x, scale):
    top = (x {op} scale).amax(-1, keepdim=True)
    e = (x {op} scale - top).exp()
    return e / e.sum(-1, keepdim=True)

torch.compile(program)(torch.rand(64, 4), torch.tensor([9000.0]))
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("op", "by", "levers"),
    [
        ("*", "LLVM contracts `mul_1` into `sub`", ["fma:sub@mul_1", "fma:in-kernel@e"]),
        ("/", "ptxas contracts `truediv_1` into `sub`", [
            "fma:sub@truediv_1", "fma:in-kernel@e", "inductor.eager_numerics.division_rounding=True"
        ]),
    ],
    ids=["product", "quotient"],
)  # fmt: skip
def test_of_the_softmax_report_the_one_site_is_named_with_who_made_it_and_what_removes_it(
    architecture: str, op: str, by: str, levers: list[str], tmp_path: Path
) -> None:
    """pytorch#121558, with few columns, so that the maximum is unrolled."""
    script = tmp_path / "case.py"
    script.write_text(SEED.format(op=op))
    command = [sys.executable, "-m", "bisector", "contractions", str(script), "--arch", architecture]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"1 contraction in 2 kernels for {architecture}.\n")
    assert f"{by}  {script}:6\n" in done.stdout
    found = re.search(r"denied by: (.*)", done.stdout)
    assert found is not None
    assert found[1].split("; ") == [*levers, "inductor.emulate_precision_casts=True"]


def test_the_command_of_the_docs_lists_contractions_of_the_worked_case(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    arguments = ["contractions", "repros/softmax_remat/case.py", "--arch", "sm_90", "--json", str(out)]
    command = [sys.executable, "-m", "bisector", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sites = json.loads(out.read_text())["sites"]
    assert sites
    assert all(site["contraction"]["instructions"] for site in sites)


def test_a_script_that_names_a_gpu_is_told_what_to_change(tmp_path: Path) -> None:
    script = tmp_path / "case.py"
    script.write_text("import torch\ntorch.compile(torch.sin)(torch.ones(4, device='cuda'))\n")
    command = [sys.executable, "-m", "bisector", "contractions", str(script), "--arch", "sm_90"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the script names a GPU: put its tensors on the CPU" in done.stderr
    assert len(done.stderr.splitlines()) == 1
