"""What was written, run as a stranger would: plain Python, a process and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

# Set here: a header that the worker has precompiled may be another's.
_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}


def start(arguments: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    """Begins to run Python, isolated from the environment's Python settings. environment: what is added."""
    return subprocess.Popen(
        [sys.executable, "-I", *arguments],
        env={**os.environ, **_HEADERS, **environment},
        cwd=tempfile.gettempdir(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], timeout_s: float) -> tuple[int | None, str]:
    """The exit status and the first line that it said; None for one that took longer and was ended."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, f"no answer after {timeout_s:g} s"
    lines = (out.strip() or err.strip()).splitlines()
    return process.returncode, lines[0] if lines else ""
