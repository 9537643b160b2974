"""Runs of the command line that more than one file of tests makes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def minimized(script: str, folder: Path) -> dict[str, Any]:
    """The result of a whole run on a script; its run directory is `folder / "run"`."""
    target = folder / "script.py"
    target.write_text(script)
    command = [sys.executable, "-m", "bisector", "minimize", str(target), "--json", "-"]
    done = subprocess.run(
        [*command, "--out", str(folder / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
