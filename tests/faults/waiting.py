"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 30.0


def until(happened: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether it happened before our patience was at its end."""
    deadline = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def runs(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_gone(pid: int) -> bool:
    return until(lambda: not runs(pid))
