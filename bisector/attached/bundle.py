"""Bundles: folders that hold one divergence, whole, for another process on another day.

case.py    the script: the graphs, the settings, the calls, compiled against eager; `python case.py` runs it
inputs.pt  what the calls were given, for `torch.load(..., weights_only=True)`
bundle.json  where it came from: versions, environment, the oracle's finding, seeds
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .. import processes
from ..core.bundle_layout import CASE, DESCRIPTION, VERSION
from ..core.outcome import OF_STATUS, Outcome
from ..core.verdict import VerdictClass
from ..errors import BadTarget, NumbisectError
from ..inductor.equality import digest
from ..inductor.tensors import dtype_name
from .written_program import KEPT, WrittenProgram

# Environment variables that torch reads when it is imported: a script can no longer set them.
READ_BY_TORCH = ("TORCH", "TRITON", "INDUCTOR", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CXX")
PLACES = ("_DIR", "_PATH", "_LOG", "_TRACE")  # on this machine: they shape no number
ANSWERED = (0, 1, 3)  # of `numbisect minimize`: there is a result


@dataclass(frozen=True)
class Description:
    """bundle.json. signature: what two failures of one program have in common: the oracle's message without
    its numbers, and a digest of what is computed. note: the user's own, seeds above all. environment:
    versions; variables: of the environment, those that torch reads."""

    name: str
    oracle: str
    signature: Mapping[str, str]
    calls: Sequence[Mapping[str, Any]]
    note: Mapping[str, Any]
    environment: Mapping[str, str | None]
    variables: Mapping[str, str]
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    bundle: int = VERSION


def write(folder: Path, name: str, program: WrittenProgram, oracle: str, note: Mapping[str, Any]) -> Path:
    """The bundle in `folder`, under a name of its own: the same program with the same inputs is there once.

    It appears whole or not at all.
    """
    computed = _digest(program.functions)
    values = [value for call in program.kept["calls"] for value in call["inputs"]]
    plain = re.sub(r"\W+", "-", name).strip("-")[:60] or "case"
    whole = folder / f"{plain}-{_digest(computed + digest(values))[:10]}"
    if whole.exists():
        return whole
    described = _described(name, program, oracle, note)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=folder) as made:
        part = Path(made) / "bundle"
        part.mkdir()
        torch.save(dict(program.kept), part / KEPT)
        (part / CASE).write_text(program.text, encoding="utf-8")
        (part / DESCRIPTION).write_text(json.dumps(asdict(described), indent=2) + "\n", encoding="utf-8")
        try:
            part.rename(whole)
        except OSError:  # another process was first
            if not whole.exists():
                raise
    return whole


def _described(name: str, program: WrittenProgram, oracle: str, note: Mapping[str, Any]) -> Description:
    return Description(
        name=name,
        oracle=oracle,
        signature={
            "oracle": re.sub(r"\d[\d.e+-]*", "N", oracle), "program": _digest(program.functions)
        },
        calls=[{"inputs": [_shape(value) for value in call["inputs"]]} for call in program.kept["calls"]],
        note=note,
        environment={
            "torch": torch.__version__,
            "torch_git": torch.version.git_version,
            "python": platform.python_version(),
            "numbisect": metadata.version("numbisect"),
        },
        variables={
            name: value
            for name, value in os.environ.items()
            if name.startswith(READ_BY_TORCH) and not name.endswith(PLACES)
        },
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _shape(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"value": value if isinstance(value, (int, str, bool, type(None))) else repr(value)}
    return {"shape": list(value.shape), "dtype": dtype_name(value.dtype)}


@dataclass(frozen=True)
class Checked:
    """outcome: PASS where compiled agrees with eager, FAIL where it diverges, UNRESOLVED where neither is
    known; verdict, reason: what they are to each other. run: the run directory."""

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
    command = processes.module("bisector", name, str(case), "--out", str(run), "--no-color", *given)
    return run, processes.run(command, None)  # the command keeps its own limits


def _result(run: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return result


def _error(done: processes.Ended) -> NumbisectError:
    line = next(reversed(done.err.strip().splitlines()), f"it ended with {done.how}")
    return BadTarget(line.removeprefix("numbisect: "))
