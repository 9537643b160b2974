"""A program that diverges on every CPU, and other processes to run what it leaves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import torch


def round_trip(x: torch.Tensor) -> torch.Tensor:
    """The CPU backend leaves the cast out, so that eager and compiled differ by float16's rounding."""
    return x.half().float() * 3


def run(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder, without what this process sets for torch."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS" and not k.startswith("PYTEST_XDIST")}
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
