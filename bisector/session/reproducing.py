"""The repro file: written by the worker, run by plain Python both ways before it is claimed."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bisector.core.case import WHOLE, Case

from . import fixes
from .answer import Answer
from .run import Session
from .study import Study

MOST_FIXES = 3  # tried in the repro; each takes two fresh processes

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


def reproduce(session: Session, study: Study, case: Case, answer: Answer) -> None:
    """The minimal case, or the whole one where the minimal case does not diverge in plain Python.

    `--fixed` is the best fix that plain torch can express; one that cannot be written, or that does not
    hold in a fresh process, makes way for the next.
    """
    expressible: list[fixes.Fix | None] = [f for f, _ in answer.fixes if f.plain is not None]
    with session.clock.stage("minimize"):
        for attempt in dict.fromkeys((case, WHOLE)):
            for fix in [*expressible[:MOST_FIXES], None]:
                tried = _try_repro(session, study, attempt, fix, answer)
                if tried is Tried.KEPT:
                    return
                if tried is Tried.OTHER_CASE:
                    break
    session.run.repro.unlink(missing_ok=True)


class Tried(enum.Enum):
    """What became of one repro: kept, or what could do better."""

    KEPT = "kept"
    OTHER_FIX = "another fix"
    OTHER_CASE = "another case"


def _try_repro(session: Session, study: Study, case: Case, fix: fixes.Fix | None, answer: Answer) -> Tried:
    """Write one repro and run it both ways."""
    seed = 0 if answer.settings.get("inductor.fallback_random") else None
    written = write(
        study,
        case,
        fix.plain if fix else None,
        _header(answer, fix),
        seed,
        session.run.repro,
        session.options.timeout_s,
    )
    if isinstance(written, str):
        answer.notes.append(written)
        return Tried.OTHER_FIX
    if not written.diverges:
        answer.notes.append(f"a repro of this case does not diverge in plain Python ({written.said})")
        return Tried.OTHER_CASE
    if written.fixed is False:
        answer.notes.append(
            f"{fix and fix.id} does not repair the repro in a fresh process; it is not confirmed"
        )
        answer.fixes = [(f, c and f is not fix) for f, c in answer.fixes]
        return Tried.OTHER_FIX
    answer.repro = session.run.repro.name
    answer.repro_lines = len(written.function.strip().splitlines())
    answer.minimal_source = written.function
    said = "no fix that plain torch can express" if written.fixed is None else "--fixed agrees"
    session.progress("repro", f"{answer.repro} diverges; {said}")
    return Tried.KEPT


def _header(answer: Answer, fix: fixes.Fix | None) -> list[str]:
    lines = ["torch.compile differs from eager."]
    if answer.verdict is not None:
        lines.append(f"Verdict: {answer.verdict.kind.value}; {answer.verdict.reason}.")
    for found, confirmed in answer.causes:
        if confirmed:
            lines.append(f"Cause: {' together with '.join(found.members)}")
    for repair in answer.repairs:
        if repair.confirmed:
            lines.append(f"Denying {' and '.join(repair.found.members)} repairs it.")
    if fix is not None:
        lines.append(f"Fix (--fixed): {fix.id}")
    env = answer.environment
    lines.append(f"Seen with torch {env['torch']}, {env['cxx']}, {env['cpu']} ({env['isa']}).")
    return lines
