"""The recorder of what a device computes, tried on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.live
def test_what_is_recorded_says_what_each_compile_computed_and_by_which_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.gpu.record", str(tmp_path / "goldens")]
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **caches, "NUMBISECT_TEST_DEVICE": "cpu"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    folder = tmp_path / "goldens" / "softmax_fma"
    compiles = json.loads((folder / "index.json").read_text())["compiles"]
    denied = {name: entry["candidate"].get("members") for name, entry in compiles.items()}
    assert (denied.pop("default"), denied.pop("plain")) == (None, None)
    ids = compiles["default"]["decisions"]
    assert sorted(denied.values()) == sorted([i] for i in ids if i.startswith(("vec:", "fma:", "split:")))
    codes = {name: (folder / f"{name}.py.txt").read_text() for name in compiles}
    assert all("cpp_fused" in code for code in codes.values())
    assert all(codes[name] != codes["default"] for name in denied)
    sizes = set()
    for name in ("eager", *compiles):
        with numpy.load(folder / f"{name}.npz") as arrays:
            sizes.add(arrays["output[0]"].shape)
    assert sizes == {(64 * 4,)}, "64 numbers of float32"
