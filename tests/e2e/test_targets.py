"""Targets as people bring them, through the command line and a real worker."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.command import numbisect

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("warm_workers")


def check(tmp_path: Path, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    out = tmp_path / "run"
    return numbisect("check", target, "--out", out, "--json", "-", "-q", *arguments, folder=tmp_path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(None, "script.py", id="missing"),
        pytest.param("def f(:\n    pass", "script.py, line 1: ", id="syntax"),
        pytest.param(
            "inputs = [1]\n",
            "never compiles anything; call torch.compile in it, or define Model, model or fn",
            marks=pytest.mark.live, id="no compile",
        ),
        pytest.param(
            "import torch\nimport no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'",
            marks=pytest.mark.live, id="raises first",
        ),
        pytest.param(
            "import torch\ntorch.compile(lambda x: x + 1)\n", "call it once with real inputs",
            id="never called",
        ),
        pytest.param(
            "import os\nos._exit(0)", "ended before it compiled anything: sys.exit(0)",
            marks=pytest.mark.live, id="leaves",
        ),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_studied_is_one_line_and_status_2(
    tmp_path: Path, source: str | None, said: str
) -> None:
    target = tmp_path / "script.py"
    if source is not None:
        target.write_text(source)
    done = check(tmp_path, target)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


SPY = """
import json, os
import torch
import torch._inductor.config as inductor_config

main = os.getpid()
def spy(gm, example_inputs):
    if os.getpid() != main:
        seen = {
            "grad": torch.is_grad_enabled(),
            "autocast": [torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))],
            "dtype": str(torch.get_default_dtype()),
            "threads": torch.get_num_threads(),
            "epilogue_fusion": inductor_config.epilogue_fusion,
            "simdlen": inductor_config.cpp.simdlen,
            "precision": torch.get_float32_matmul_precision(),
            "deterministic": [torch.are_deterministic_algorithms_enabled(),
                              torch.is_deterministic_algorithms_warn_only_enabled()],
            "mkldnn": torch.backends.mkldnn.enabled,
            "flash": torch.backends.cuda.flash_sdp_enabled(),
            "draw": torch.rand(3, dtype=torch.float64).tolist(),
            "recorded": SEEN,
        }
        open("seen.json", "w").write(json.dumps(seen))
    return gm

inductor_config.epilogue_fusion = False
inductor_config.cpp.simdlen = 1
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
torch.set_float32_matmul_precision("medium")
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.mkldnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.manual_seed(7)
SEEN = None
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    state = torch.get_rng_state()
    SEEN = torch.rand(3, dtype=torch.float64).tolist()
    torch.set_rng_state(state)
    torch.compile(lambda x: x * 2, backend=spy)(torch.ones(4))
torch.set_grad_enabled(True)
torch.manual_seed(8)
torch.set_default_dtype(torch.float32)
inductor_config.cpp.simdlen = None
"""


@pytest.mark.live
def test_the_settings_around_the_scripts_call_hold_in_the_probe(tmp_path: Path) -> None:
    target = tmp_path / "script.py"
    target.write_text(SPY)
    done = check(tmp_path, target)
    assert done.returncode == 0, done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen.pop("draw") == seen.pop("recorded")
    assert seen == {
        "grad": False,
        "autocast": [True, "torch.bfloat16"],
        "dtype": "torch.float64",
        "threads": 1,
        "epilogue_fusion": False,
        "simdlen": 1,
        "precision": "medium",
        "deterministic": [True, True],
        "mkldnn": False,
        "flash": False,
    }
    settings = json.loads(done.stdout)["settings"]
    assert settings["inductor.cpp.simdlen"] == 1


MODULES = {
    "a class with its arguments": """
        import torch
        class Model(torch.nn.Module):
            def __init__(self, n, scale):
                super().__init__()
                self.linear = torch.nn.Linear(n, 2)
                self.scale = scale
            def forward(self, x, y):
                return self.linear(x).half().float() * self.scale + y
        def get_init_inputs():
            return [4, 0.3]
        def get_inputs():
            torch.manual_seed(0)
            return [torch.randn(3, 4), torch.randn(3, 2)]
        torch.manual_seed(0)
    """,
    "a function and inputs": """
        import torch
        torch.manual_seed(0)
        inputs = [torch.randn(64)]
        def fn(x):
            return (x * 1.1).half().float() * 3
    """,
}


@pytest.mark.parametrize(
    "form", ["a function and inputs", pytest.param("a class with its arguments", marks=pytest.mark.live)]
)
def test_a_module_with_inputs_is_compiled_and_called_for_its_author(tmp_path: Path, form: str) -> None:
    target = tmp_path / "model.py"
    target.write_text(textwrap.dedent(MODULES[form]))
    done = check(tmp_path, target)
    assert done.returncode == 1, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["verdict"]["class"] == "elided-rounding"
    assert result["verdict"]["outputs"][0]["n_diff"] > 0


LOUD = """
import sys
import torch

def program(x):
    return (x * 1.1).half().float() * 3

def other(x):
    return x + 1

torch.manual_seed(0)
x = torch.randn(64)
print("output of the script")
torch.compile(other)(x)
c = torch.compile(program)(x)
print("more", file=sys.stderr)
torch.testing.assert_close(c, program(x), rtol=1e-9, atol=1e-9)
sys.exit(7)
"""


@pytest.mark.live
def test_a_script_that_is_loud_and_fails_is_studied_in_silence(tmp_path: Path) -> None:
    target = tmp_path / "script.py"
    target.write_text(LOUD)
    done = check(tmp_path, target)
    assert done.returncode == 1
    assert "output of the script" not in done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["entry"] == "program"
    assert result["verdict"]["criterion"]["tolerances"] == [[1e-9, 1e-9]]
    assert any("sys.exit(7)" in note for note in result["text_notes"])
    assert "output of the script" in (tmp_path / "run" / "worker.log").read_text()
