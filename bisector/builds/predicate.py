"""Whether a build shows the divergence: its interpreter runs the repro, in a process and a cache of its own.

A cache that two builds share gives stale verdicts: installed headers are no part of its key.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bisector import processes
from bisector.core.outcome import OF_STATUS, Outcome

DRIVER = Path(__file__).with_name("driver.py")
SETTINGS = "NUMBISECT_SETTINGS"  # the variable that hands settings to the driver, as JSON
LAST_WORDS = 200  # characters of stderr that are reported
# Of the user's environment: what would put other modules, or another build's kernels, before the build's own.
_TAKEN_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class CannotInstall(Exception):
    """There is no interpreter of this build: a broken archive, a wrong hash, no room. One line."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that has the build. site: the folder that torch is imported from; variables: of its
    environment besides the user's own."""

    python: Path
    site: Path
    variables: Mapping[str, str] = field(default_factory=dict)


def installed() -> Interpreter:
    """The build that is installed where numbisect is."""
    return Interpreter(Path(sys.executable), Path(str(metadata.distribution("torch").locate_file(""))))


@dataclass(frozen=True)
class BuildResult:
    """What one build gave. line: the driver's, empty where there was none; reason: why it is UNRESOLVED."""

    outcome: Outcome
    line: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"outcome": self.outcome.value, "line": dict(self.line), "reason": self.reason}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> BuildResult:
        return cls(Outcome(raw["outcome"]), raw["line"], raw["reason"])


def environment_of(where: Interpreter, folder: str) -> dict[str, str]:
    """The variables of a process of the build, whose caches are in the folder."""
    users = {k: v for k, v in os.environ.items() if k not in _TAKEN_OUT}
    own = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder, "PYTHONNOUSERSITE": "1"}
    return {**users, **own, **where.variables}


def ask(
    where: Interpreter,
    repro: Path,
    timeout_s: float,
    repeat: int = 1,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> BuildResult:
    """Run the repro that often; UNRESOLVED where the runs disagree, crash twice or take too long. settings:
    flags that are set before it begins."""
    set_first = replace(where, variables={**where.variables, SETTINGS: json.dumps(dict(settings))})
    trials = [_once(set_first, repro, timeout_s) for _ in range(repeat)]
    outcomes = [t.outcome for t in trials]
    if len(set(outcomes)) == 1:
        return trials[0]
    counted = ", ".join(f"{outcomes.count(o)} {o.value}" for o in Outcome if o in outcomes)
    return BuildResult(Outcome.UNRESOLVED, trials[0].line, f"{repeat} runs disagree: {counted}")


class _Crashed(Exception):
    """It ended as no repro ends; the message says how."""


def _once(where: Interpreter, repro: Path, timeout_s: float) -> BuildResult:
    """A crash is asked once more, since it may be the machine's, and is never a divergence."""
    with contextlib.suppress(_Crashed):
        return _run(where, repro, timeout_s)
    try:
        return _run(where, repro, timeout_s)
    except _Crashed as crash:
        return BuildResult(Outcome.UNRESOLVED, reason=str(crash))


def _run(where: Interpreter, repro: Path, timeout_s: float) -> BuildResult:
    """Raises _Crashed."""
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        command = [str(where.python), str(DRIVER), str(repro)]
        done = processes.run(command, timeout_s, folder=folder, environment=environment_of(where, folder))
    if done.status is None:
        return BuildResult(Outcome.UNRESOLVED, reason=done.how)
    return _read(done)


def _read(done: processes.Ended) -> BuildResult:
    """stdout is the driver's line, or nothing where it did not come to that. Raises _Crashed."""
    last = next(reversed(done.err.strip().splitlines()), "")[:LAST_WORDS]
    try:
        line = json.loads(done.out)
    except ValueError:
        raise _Crashed(f"it ended with {done.how}: {last or 'it said nothing'}") from None
    if line["status"] not in OF_STATUS:
        raise _Crashed(f"the repro ended with status {line['status']}")
    outcome = OF_STATUS[line["status"]]
    reason = (line["error"] or last or "it said no reason") if outcome is Outcome.UNRESOLVED else ""
    return BuildResult(outcome, line, reason)
