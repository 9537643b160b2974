"""The crash file: what an error of numbisect's own leaves behind, to attach to a report."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from .rundir import RunDirectory, current_run

JOURNAL_LINES, LOG_LINES = 10, 40  # of the ends of journal.jsonl and worker.log
LINE_LENGTH = 1000  # characters kept of one line: an answer may be a megabyte
PACKAGES = ("numbisect", "torch", "triton", "numpy")


def write(error: BaseException, arguments: Sequence[str]) -> Path:
    """Write the crash file, into the run directory if this process has one that takes it, else into the
    temporary folder. Raises OSError where neither takes it."""
    run = current_run()
    content = _content(error, arguments, run)
    name = time.strftime("crash-%Y%m%dT%H%M%S.txt")
    if run is not None:
        try:
            return _written(run.path / name, content)
        except OSError:
            pass  # the run directory may be what the error is about
    # Others write there, too: a name that could be guessed might be a link by then.
    descriptor, path = tempfile.mkstemp(prefix=f"numbisect-{Path(name).stem}-", suffix=".txt")
    os.close(descriptor)
    return _written(Path(path), content)


def _written(path: Path, content: str) -> Path:
    try:
        path.write_text(content, encoding="utf-8", errors="replace")
    except OSError:
        path.unlink(missing_ok=True)  # half a file says less than none
        raise
    return path


def _content(error: BaseException, arguments: Sequence[str], run: RunDirectory | None) -> str:
    parts = [
        "".join(traceback.format_exception(error)),
        f"command: numbisect {' '.join(arguments)}",
        f"python {platform.python_version()}, {platform.platform()}",
        *(f"{package} {_version(package)}" for package in PACKAGES),
    ]
    if run is not None:
        parts += _tail(run.journal, JOURNAL_LINES) + _tail(run.log, LOG_LINES)
    return "\n".join(parts) + "\n"


def _tail(path: Path, lines: int) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return ["", f"{path}: {error.strerror}"]
    return ["", f"the end of {path}:", *(line[:LINE_LENGTH] for line in text.splitlines()[-lines:])]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "is not installed"


def crash_line(error: BaseException, arguments: Sequence[str]) -> str:
    """The line for the user. Where no crash file can be written the traceback goes to stderr."""
    summary = " ".join(traceback.format_exception_only(error)[-1].split())[:300]
    try:
        where = f"{write(error, arguments)} has the details to attach to a report"
    except OSError as unwritable:
        traceback.print_exception(error, file=sys.stderr)
        where = f"no crash file could be written ({unwritable.strerror}), so the details are above"
    return f"an error of numbisect's own: {summary}; {where}"
