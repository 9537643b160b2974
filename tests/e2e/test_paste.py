"""Every workaround that a report prints is run exactly as printed, in plain torch around the script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
SCRIPT = """
import torch

def weights(x):
    return x.half().float() * 3

torch.manual_seed(0)
x = torch.randn(64)
{line}
with patch:
    actual = torch.compile(weights, backend=backend, options=options)(x)
torch.testing.assert_close(actual, weights(x))
"""
NOTHING = 'import contextlib; patch, options, backend = contextlib.nullcontext(), None, "inductor"'
TARGET = SCRIPT.format(line=NOTHING)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the text report prints under its fixes."""
    folder = tmp_path_factory.mktemp("paste")
    (folder / "script.py").write_text(TARGET)
    command = [sys.executable, "-m", "bisector", "flags", "script.py", "--out", "run", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "run" / "result.json").read_text())
    told = [line for fix in result["fixes"] for line in fix["paste"]]
    printed = [line.removeprefix(" " * 7) for line in done.stdout.splitlines()]
    assert set(told) <= set(printed)
    return told


def runs(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """The script with the line where it belongs: a shell's before it, Python's before the compile."""
    exported = line if line.startswith("export ") else "true"
    python = NOTHING if exported == line else f"{NOTHING}\n{line}"
    (folder / "pasted.py").write_text(SCRIPT.format(line=python))
    shell = f"{exported}\n{sys.executable} pasted.py"
    return subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, cwd=folder, env=dict(os.environ)
    )


def test_without_a_workaround_the_script_fails(tmp_path: Path) -> None:
    assert "Tensor-likes are not close" in runs(tmp_path, "pass").stderr


def test_each_kind_of_line_is_printed_and_repairs_the_script(tmp_path: Path, lines: list[str]) -> None:
    kinds = {line.partition(" = ")[0] if " = " in line else line.partition("=")[0] for line in lines}
    assert {
        "torch._inductor.config.emulate_precision_casts",
        "options",
        "patch",
        "export TORCHINDUCTOR_EMULATE_PRECISION_CASTS",
        "export TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS",
    } <= kinds
    failed = {line: done.stderr for line in lines if (done := runs(tmp_path, line)).returncode != 0}
    assert failed == {}
