"""Without the packages of the extra `builds` everything else works, and one line says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bisector.explain.build_question import PACKAGES

# Runs the command in an environment that lacks them.
WITHOUT = f"""
import sys
for name in {PACKAGES!r}:
    sys.modules[name] = None
from bisector.cli.main import main
main()
"""


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.parametrize(
    "arguments", [("builds", "repro.py", "--good", "2.11"), ("minimize", "repro.py", "--builds", "2.11..")]
)
def test_builds_say_in_one_line_what_to_install(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text("raise SystemExit(1)\n")
    done = ran(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'numbisect[builds]'" in done.stderr


@pytest.mark.live
def test_doctor_does_without_and_says_so(tmp_path: Path) -> None:
    done = ran(tmp_path, "doctor")
    assert done.returncode == 0, done.stderr
    assert "no elftools" in done.stdout
