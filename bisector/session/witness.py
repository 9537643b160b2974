"""The script as its user runs it, and the same with compilation off: processes of their own, in which nothing
was imported before the script's first line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
MOST_LINES = 10_000  # that are compared of what a script prints
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


@dataclass(frozen=True)
class _Asked:
    """A run of the script. backend: in the place of Inductor. again: asked for a second time."""

    seed: int
    mode: Mode
    backend: str | None = None
    again: bool = False

    def to_json(self) -> dict[str, Any]:
        told = {"job": "program", "mode": self.mode.value, "backend": self.backend, "again": self.again}
        return {**told, "seed": self.seed}

    @property
    def key(self) -> str:
        return key_of(self.to_json())


class Program:
    """Runs the script plainly. A folder for each seed holds what the run with compilation off gave."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.folder = folder

    def _asked(self, mode: Mode, backend: str | None = None, again: bool = False) -> _Asked:
        return _Asked(self.session.seed, mode, backend, again)

    def _of_seed(self, seed: int) -> Path:
        folder = self.folder / str(seed)
        folder.mkdir(exist_ok=True)
        return folder

    def witness(self, criterion: Criterion) -> Witness:
        """Two runs of the script, one after the other; two more where nothing but what is printed differs."""
        eager, compiled = self._run(self._asked(Mode.EAGER)), self._run(self._asked(Mode.COMPILED))
        found = shown(eager, compiled, criterion)
        lines: tuple[int, ...] = ()
        if not found.diverges and apart(eager, compiled):
            again = self._run_all([self._asked(Mode.EAGER_AGAIN), self._asked(Mode.COMPILED, again=True)])
            # Times, addresses and what is drawn without a seed differ from run to run.
            moving = {*apart(eager, again[0]), *apart(compiled, again[1])}
            lines = tuple(line for line in apart(eager, compiled) if line not in moving)
            found = shown(eager, compiled, criterion, lines)
        return Witness(eager, compiled, found, lines=lines)

    def diverging_seeds(self, seeds: Sequence[int], criterion: Criterion) -> list[int]:
        """Of the seeds those with which the script diverges, by more than what it prints."""
        eager = self._run_all([_Asked(seed, Mode.EAGER) for seed in seeds])
        compiled = self._run_all([_Asked(seed, Mode.COMPILED) for seed in seeds])
        runs = zip(seeds, eager, compiled, strict=True)
        return [seed for seed, off, on in runs if shown(off, on, criterion).diverges]

    def is_steady(self, criterion: Criterion) -> bool:
        """Whether a second run with compilation off gives what the first gave."""
        eager = self._run(self._asked(Mode.EAGER))
        return not shown(eager, self._run(self._asked(Mode.EAGER_AGAIN)), criterion).diverges

    def prepared(self) -> Path:
        """The folder of the session's seed, with what each run of the program is measured against."""
        return self._prepared(self.session.seed)

    def _prepared(self, seed: int) -> Path:
        if not (self._of_seed(seed) / KEPT).exists():
            self._begun(_Asked(seed, Mode.EAGER))
        return self._of_seed(seed)

    def with_backend(self, witness: Witness, criterion: Criterion) -> Witness:
        """Names the first rung that shows a divergence; `inductor` where none above it does."""
        runs = self._run_all([self._asked(Mode.COMPILED, rung) for rung in RUNGS])
        for rung, run in zip(RUNGS, runs, strict=True):
            if shown(witness.eager, run, criterion, witness.lines).diverges:
                return replace(witness, first_bad_backend=rung)
        return replace(witness, first_bad_backend="inductor")

    def _run(self, asked: _Asked) -> PlainRun:
        return self._run_all([asked])[0]

    def _run_all(self, asked: Sequence[_Asked]) -> list[PlainRun]:
        """One run for each, side by side; what the journal knows is not run again."""
        journal = self.session.journal
        fresh = [one for one in asked if one.key not in journal.answers]
        # The journal may know the run with compilation off; it has none of its values.
        for seed in {one.seed for one in fresh if one.mode is not Mode.EAGER}:
            self._prepared(seed)
        for one in fresh:
            journal.started(one.key, one.to_json())
        with ThreadPoolExecutor(self.session.lab.jobs) as pool:
            begun = list(pool.map(self._begun, fresh))
        for one, run in zip(fresh, begun, strict=True):
            if run.status is not None:
                journal.done(one.key, wire.dump(run))
        known = dict(zip(fresh, begun, strict=True))
        return [self._heard(known.get(o) or wire.load(PlainRun, journal.answers[o.key])) for o in asked]

    def _heard(self, run: PlainRun) -> PlainRun:
        """Tolerances that the user gave stand in the place of what the script says of itself."""
        options = self.session.options
        if run.status is None or (options.rtol is None and options.tolerances is None):
            return run
        return replace(run, agreed=(), ended=None, status=0, printed=(), said=())

    def _begun(self, asked: _Asked) -> PlainRun:
        session, options, mode = self.session, self.session.options, asked.mode
        folder = self._of_seed(asked.seed)
        events = folder / f"{mode.value}-{asked.backend}.jsonl"
        told = PlainOptions(
            folder=str(folder), events=str(events), root=str(ROOT.parent), mode=mode,
            seed=asked.seed, backend=asked.backend,
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
            (folder / KEPT).write_text(heard, encoding="utf-8")
        return run


def program_of(session: Session) -> Program:
    """The script of a session, with a folder that goes with the session."""
    return Program(session, session.scratch())


def _read(events: Path, done: processes.Ended) -> PlainRun:
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    killed = processes.how_it_ended(done.status) if done.status is not None and done.status < 0 else None
    run = PlainRun(status=done.status, ended=killed, printed=tuple(done.out.splitlines()[:MOST_LINES]))
    calls: list[CompiledCall] = []
    agreed: list[bool] = []
    said: list[str] = []
    for event in map(_event, lines):
        if "index" in event:
            calls.append(wire.load(CompiledCall, event))
        elif "agreed" in event:
            agreed.append(event["agreed"])
        elif "said" in event:
            said += event["said"].splitlines()
        else:
            run = replace(run, **event)
    return replace(run, calls=tuple(calls), agreed=tuple(agreed), said=tuple(said[:MOST_LINES]))


def _event(line: str) -> dict[str, Any]:
    """None of a line that was cut short: the script's process may have been killed."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

