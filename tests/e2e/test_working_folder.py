"""`numbisect check` in folders that hold what could stand for something else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bisector import processes
from tests.command import numbisect

pytestmark = pytest.mark.live


def test_what_lies_in_the_working_directory_stands_for_nothing_of_pythons_or_ours(tmp_path: Path) -> None:
    (tmp_path / "unittest.py").write_text("raise ImportError('not the one')\n")
    (tmp_path / "bisector").mkdir()
    (tmp_path / "bisector" / "__init__.py").write_text("raise ImportError('not this either')\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "case.py").write_text(
        "import torch\nprint(torch.compile(lambda x: x.half().float() * 3)(torch.rand(9)))\n"
    )
    done = subprocess.run(
        processes.module("bisector", "check", "scripts/case.py", "-q"),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.usefixtures("warm_workers")
def test_a_kernel_of_which_a_part_was_written_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import torch\nprint(torch.compile(lambda x: x.half().float() * 3.25)(torch.rand(9)))\n"
    (tmp_path / "case.py").write_text(script)
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    said = []
    for _ in range(2):
        done = numbisect("check", "case.py", "--json", "-", "-q", folder=tmp_path)
        said.append((done.returncode, json.loads(done.stdout)["verdict"]))
        kernels = list(cache.rglob("*.so"))
        for kernel in kernels:
            kernel.write_bytes(b"")
    assert kernels
    assert said[0] == said[1]
    assert said[0][1]["class"] == "elided-rounding"
