"""What was written, run as a stranger would: plain Python, a process and a folder of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

from bisector import processes
from bisector.errors import CannotWrite

# Set here: a header that the worker has precompiled may be another's.
_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}


def start(arguments: Sequence[str], **environment: str) -> processes.Started:
    """Begins to run Python, isolated from the environment's Python settings. environment: what is added.

    Raises CannotWrite where there is no temporary folder.
    """
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise CannotWrite("no folder for temporary files can be written; make room, or set TMPDIR") from error
    return processes.start(
        [sys.executable, "-I", *arguments],
        folder=folder,
        environment={**os.environ, **_HEADERS, **environment},
        capture=True,
    )


def ended(process: processes.Started, timeout_s: float) -> tuple[int | None, str]:
    """The exit status and the first line that it said; None for one that took longer and was ended."""
    done = process.wait(timeout_s)
    if done.status is None:
        return None, f"no answer after {timeout_s:g} s"
    lines = (done.out.strip() or done.err.strip()).splitlines()
    return done.status, lines[0] if lines else ""
