"""What the benchmarks share: a command run on cold caches for a limited time, and numbisect run so."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENDS = {1: "no divergence found", 2: "could not start", 3: "no confirmed answer"}  # docs/cli.md


@dataclass(frozen=True)
class Ended:
    """How a command ended. status: None where the time was up. output: stdout and stderr together.

    cpu_s: user and system time of the command and of all processes that it waited for.
    """

    output: str
    status: int | None
    wall_s: float
    cpu_s: float


@contextmanager
def cold_folder() -> Iterator[Path]:
    """A folder in which nothing was compiled before; afterwards nothing is left of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        yield folder


def run_command(
    command: list[str], folder: Path, timeout_s: float, variables: Mapping[str, str] | None = None
) -> Ended:
    """Run it in `folder / "tmp"` with all caches in `folder`; past the time its process group is killed."""
    work = folder / "tmp"
    caches = {"TMPDIR": str(work), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    before, start = _cpu_of_children(), time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **caches, **(variables or {})}, cwd=work, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )
    status = None
    try:
        output, _ = process.communicate(timeout=timeout_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return Ended(output, status, time.perf_counter() - start, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "said nothing"


def numbisect(command: str, script: Path, folder: Path) -> list[str]:
    """The command line; the run is written into `folder`, where `answer` finds it."""
    arguments = [command, str(script), "--out", str(folder / "run")]
    return [sys.executable, "-m", "bisector", *arguments]


def answer(ended: Ended, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """numbisect's result.json, None where it wrote none, and why it is no answer; empty where it is one."""
    written = folder / "run" / "result.json"
    found = json.loads(written.read_text()) if written.exists() else None
    if ended.status is None:
        return found, "timeout"
    if found is None:
        return None, last_line(ended.output)
    return found, "" if ended.status == 0 else ENDS.get(ended.status, f"exit status {ended.status}")


def probes(found: dict[str, Any]) -> int:
    """Those that were run, not remembered."""
    return int(found["probes"]["total"] - found["probes"]["cached"])


def causes(found: dict[str, Any]) -> str:
    """The confirmed causes, or where there is none what repairs it."""
    sets = [c["decisions"] for c in found["causes"] if c["confirmed"]]
    if sets:
        return "; ".join(" + ".join(members) for members in sets)
    return "repaired by " + " or ".join(fix["id"] for fix in found["fixes"][:2])
