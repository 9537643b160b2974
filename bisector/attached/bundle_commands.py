"""The command asked about a bundle, in a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import processes
from ..core.model import OF_STATUS, Outcome
from ..core.verdict import VerdictClass
from ..errors import BadTarget, NumbisectError

ANSWERED = (0, 1, 3)  # of `numbisect minimize`: there is a result


@dataclass(frozen=True)
class Checked:
    """outcome: PASS where compiled agrees with eager, FAIL where it diverges, UNRESOLVED where neither can be
    told; verdict, reason: what they are to each other. run: the run directory."""

    outcome: Outcome
    verdict: VerdictClass
    reason: str
    run: Path


@dataclass(frozen=True)
class Minimized:
    """The answer of `numbisect minimize`. result: `result.json` as docs/result-schema.md says; summary: what
    the command prints. repro: the standalone file, None where there is none."""

    verdict: VerdictClass
    reason: str
    result: Mapping[str, Any]
    summary: str
    run: Path

    @property
    def in_a_line(self) -> str:
        """The verdict, what is to blame if that is known, and where the repro is."""
        blamed = [*self.result["causes"], *self.result["repairs"]]
        named = (" with ".join(one["decisions"]) for one in blamed if one["confirmed"])
        decisions = next(named, "no confirmed cause")
        where = f"; {self.repro}" if self.repro else ""
        return f"{self.verdict.value}; {decisions}{where}"

    @property
    def repro(self) -> Path | None:
        name = self.result["repro"]
        return self.run / name if name else None


def check_bundle(case: Path, asked: Mapping[str, float | None] | None = None) -> Checked:
    """`numbisect check` of a bundle. asked: options of the command; None is left out.

    Raises BadTarget where the command takes the bundle or the options for bad ones.
    """
    run, done = _command("check", case, asked or {})
    if done.status not in OF_STATUS or not (run / "result.json").exists():
        raise _error(done)
    verdict = _result(run)["verdict"]
    return Checked(OF_STATUS[done.status], VerdictClass(verdict["class"]), verdict["reason"], run)


def minimize_bundle(case: Path, asked: Mapping[str, float | None] | None = None) -> Minimized:
    """`numbisect minimize` of a bundle, as `check_bundle`."""
    run, done = _command("minimize", case, asked or {})
    if done.status not in ANSWERED or not (run / "result.json").exists():
        raise _error(done)
    result = _result(run)
    verdict = result["verdict"]
    return Minimized(VerdictClass(verdict["class"]), verdict["reason"], result, done.out, run)


def _command(name: str, case: Path, asked: Mapping[str, float | None]) -> tuple[Path, processes.Ended]:
    """The run directory, which is in the bundle, and how the command ended."""
    run = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=case))
    given = [f"--{option}={value!r}" for option, value in asked.items() if value is not None]
    command = [sys.executable, "-m", "bisector", name, str(case), "--out", str(run), "--no-color", *given]
    return run, processes.run(command, None)  # the command keeps its own limits


def _result(run: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return result


def _error(done: processes.Ended) -> NumbisectError:
    line = next(reversed(done.err.strip().splitlines()), f"it ended with {done.how}")
    return BadTarget(line.removeprefix("numbisect: "))
