"""The repro file: written by the worker, run by plain Python both ways before it is claimed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bisector.core.case import WHOLE, Case

from .study import Study

DIVERGES, AGREES = 1, 0  # exit statuses of a repro


@dataclass(frozen=True)
class Written:
    """A repro that was run. fixed: whether `--fixed` repaired it in its own process; None: not tried."""

    text: str
    function: str
    diverges: bool
    fixed: bool | None
    said: str


def write(
    study: Study,
    case: Case,
    plain_fix: Mapping[str, Any] | None,
    header: Sequence[str],
    seed: int | None,
    path: Path,
    timeout_s: float,
) -> Written | str:
    """Write the repro of a case to `path` and run it both ways. A string says why there is none."""
    criterion = study.criterion if case == WHOLE else study.small
    answer = study.lab.ask(
        {
            "job": "repro",
            "call": study.call,
            "case": case.to_json(),
            "train": study.train,
            "criterion": asdict(criterion),
            "fix": plain_fix,
            "header": list(header),
            "seed": seed,
            "num_threads": None,
        }
    )
    if "error" in answer:
        return f"no repro could be written: {answer['error']}"
    path.write_text(answer["text"])
    runs = [_start(path, [])] + ([_start(path, ["--fixed"])] if plain_fix else [])
    ended = [_wait(run, timeout_s) for run in runs]
    fixed = ended[1][0] == AGREES if plain_fix else None
    return Written(answer["text"], answer["function"], ended[0][0] == DIVERGES, fixed, ended[0][1])


def _start(path: Path, arguments: list[str]) -> subprocess.Popen[str]:
    """In a folder of its own, isolated from the environment's Python settings: as a stranger would run it.

    A fix may change the compiler's command line, and so need a precompiled header that serves it alone.
    """
    header = "0" if arguments else "1"
    return subprocess.Popen(
        [sys.executable, "-I", str(path), *arguments],
        env={**os.environ, "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": header},
        cwd=tempfile.gettempdir(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait(process: subprocess.Popen[str], timeout_s: float) -> tuple[int | None, str]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, f"no answer after {timeout_s:g} s"
    lines = (out.strip() or err.strip()).splitlines()
    return process.returncode, lines[0] if lines else ""
