"""The script as its user runs it, and the same with compilation off: processes of their own, in which nothing
was imported before the script's first line.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import bisector
from bisector import processes, wire
from bisector.core.judge import Criterion
from bisector.core.messages import SCRIPT_S
from bisector.core.program import KEPT, CompiledCall, Mode, PlainOptions, PlainRun, Shown, apart, shown
from bisector.runner.journal import key_of

from .run import Session

ROOT = Path(bisector.__file__).parent
WATCHED = ROOT / "inductor" / "program" / "run_script.py"
RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition")
MOST_LINES = 200  # that are kept of what a script prints
# Both names, since torch has had each (torch/_dynamo/config.py).
OFF = {"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"}


@dataclass(frozen=True)
class Witness:
    """What the script shows. first_bad_backend: the first rung with which it shows the same; None where
    nothing was shown, or no rung was tried. lines: the printed ones that count."""

    eager: PlainRun
    compiled: PlainRun
    shown: Shown
    first_bad_backend: str | None = None
    lines: tuple[int, ...] = ()


class Program:
    """Runs the script plainly. One folder holds what the run with compilation off gave."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.folder = folder

    def witness(self, criterion: Criterion) -> Witness:
        """Two runs of the script, one after the other; two more where nothing but what is printed differs."""
        eager, compiled = self._run(Mode.EAGER), self._run(Mode.COMPILED)
        found = shown(eager, compiled, criterion)
        lines: tuple[int, ...] = ()
        if not found.diverges and apart(eager, compiled):
            again = [self._run(mode, again=True) for mode in (Mode.EAGER, Mode.COMPILED)]
            # Times, addresses and what is drawn without a seed differ from run to run.
            moving = {*apart(eager, again[0]), *apart(compiled, again[1])}
            lines = tuple(line for line in apart(eager, compiled) if line not in moving)
            found = shown(eager, compiled, criterion, lines)
        return Witness(eager, compiled, found, lines=lines)

    def is_steady(self, criterion: Criterion) -> bool:
        """Whether a second run with compilation off gives what the first gave."""
        eager = self._run(Mode.EAGER)
        return not shown(eager, self._run(Mode.EAGER_AGAIN), criterion).diverges

    def prepared(self) -> Path:
        """The folder, with what each run of the program is measured against."""
        if not (self.folder / KEPT).exists():
            self._begun(Mode.EAGER, None)
        return self.folder

    def with_backend(self, witness: Witness, criterion: Criterion) -> Witness:
        """Names the first rung that shows a divergence; `inductor` where none above it does."""
        for rung in RUNGS:
            if shown(witness.eager, self._run(Mode.COMPILED, rung), criterion, witness.lines).diverges:
                return replace(witness, first_bad_backend=rung)
        return replace(witness, first_bad_backend="inductor")

    def _run(self, mode: Mode, backend: str | None = None, again: bool = False) -> PlainRun:
        session = self.session
        asked = {"job": "program", "mode": mode.value, "backend": backend, "again": again}
        key = key_of(asked)
        if key in session.journal.answers:
            return self._heard(wire.load(PlainRun, session.journal.answers[key]))
        if mode is not Mode.EAGER:
            self.prepared()  # the journal may know the run with compilation off; it has none of its values
        session.journal.started(key, asked)
        run = self._begun(mode, backend)
        if run.status is not None:
            session.journal.done(key, wire.dump(run))
        return self._heard(run)

    def _heard(self, run: PlainRun) -> PlainRun:
        """Tolerances that the user gave stand in the place of what the script says of itself."""
        options = self.session.options
        if run.status is None or (options.rtol is None and options.tolerances is None):
            return run
        return replace(run, agreed=(), ended=None, status=0, printed=())

    def _begun(self, mode: Mode, backend: str | None) -> PlainRun:
        session, options = self.session, self.session.options
        events = self.folder / f"{mode.value}-{backend}.jsonl"
        told = PlainOptions(
            folder=str(self.folder), events=str(events), root=str(ROOT.parent), mode=mode,
            seed=session.seed, backend=backend,
        )  # fmt: skip
        left_s = session.clock.left_s()
        most_s = min(options.timeout_s or SCRIPT_S, SCRIPT_S if left_s is None else left_s)
        done = processes.run(
            [sys.executable, str(WATCHED), json.dumps(asdict(told) | {"mode": mode.value}), options.target],
            most_s,
            folder=options.folder,
            environment={**os.environ, **({} if mode is Mode.COMPILED else OFF)},
        )
        run = _read(events, done)
        if mode is Mode.EAGER:
            heard = json.dumps(wire.dump(self._heard(run)))
            (self.folder / KEPT).write_text(heard, encoding="utf-8")
        return run


def program_of(session: Session) -> Program:
    """The script of a session, with a folder that goes with the session."""
    return Program(session, session.scratch())


def _read(events: Path, done: processes.Ended) -> PlainRun:
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    run = PlainRun(status=done.status, printed=tuple(done.out.splitlines()[-MOST_LINES:]))
    calls: list[CompiledCall] = []
    agreed: list[bool] = []
    for event in map(_event, lines):
        if "index" in event:
            calls.append(wire.load(CompiledCall, event))
        elif "agreed" in event:
            agreed.append(event["agreed"])
        else:
            run = replace(run, **event)
    return replace(run, calls=tuple(calls), agreed=tuple(agreed))


def _event(line: str) -> dict[str, Any]:
    """None of a line that was cut short: the script's process may have been killed."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

