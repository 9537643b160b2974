"""Real releases from the public index, on a CPU with stubs: gigabytes of wheels, so asked for by a variable.

    NUMBISECT_RELEASES=1 pytest -m network tests/builds/test_real_releases.py -n 0
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPROS = Path(__file__).parents[2] / "repros"
pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        "NUMBISECT_RELEASES" not in os.environ, reason="downloads 3 GB; set NUMBISECT_RELEASES to have it"
    ),
]


def asked(script: Path, folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "bisector", "builds", str(script), "--cpu-stubs", *arguments]
    done = subprocess.run(
        [*command, "--out", str(folder / "run"), "--json", "-"], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["builds"]


def test_contraction_at_default_settings_was_fixed_in_2_3(tmp_path: Path) -> None:
    lines = (REPROS / "softmax_fma" / "case.py").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("inductor_config.")]
    assert len(kept) == len(lines) - 1
    (tmp_path / "case.py").write_text("\n".join(kept) + "\n")
    status, found = asked(tmp_path / "case.py", tmp_path, "--find-fix", "--bad", "2.1", "--good", "2.4")
    assert (status, found["confirmed"]) == (0, True)
    assert (found["before"]["name"], found["after"]["name"]) == ("2.2.2", "2.3.0")


def test_a_lost_cast_diverges_as_far_back_as_there_are_releases(tmp_path: Path) -> None:
    status, found = asked(REPROS / "fp16_round_trip" / "case.py", tmp_path, "--bad", "2.3")
    assert (status, found["answer"]) == (1, None)
    assert "it diverges as far back as 2.1.0" in found["reason"]
