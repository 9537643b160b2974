"""Runs of the script as its user runs it, and with compilation off: processes of their own, in which nothing
was imported before the script's first line. What the journal knows is not run again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import bisector
from bisector import processes, wire
from bisector.core.fix import SetFlags
from bisector.core.fix_source import late_lines
from bisector.core.messages import SCRIPT_S
from bisector.core.model import Json
from bisector.core.options import Options
from bisector.core.printed import MOST_LINES, digest_of_rest
from bisector.core.program import (
    KEPT,
    OFF,
    CompiledCall,
    Mode,
    PlainOptions,
    PlainRun,
    RunOptions,
    with_events,
    without_its_own_words,
)
from bisector.runner.journal import Journal, key_of
from bisector.tracing import Trace

ROOT = Path(bisector.__file__).parent
WATCHED = ROOT / "inductor" / "program" / "run_script.py"
# What a run with compilation off is made without.
NO_FIX: dict[str, Any] = {"early": (), "late": (), "arguments": {}, "disabled": (), "anew": ()}


@dataclass(frozen=True, kw_only=True)
class ScriptRun(RunOptions):
    """A run of the script. again: asked for a second time."""

    again: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"job": "program", **wire.dump(self)}

    @property
    def key(self) -> str:
        return key_of(self.to_json())


@dataclass(frozen=True)
class _Begun:
    """A run that was begun. events: the file that takes what is seen. begun_s: on the monotonic clock."""

    process: processes.Started
    events: Path
    begun_s: float


class RunOfScript(Protocol):
    """What a session says of its script. script: the file; seed: of a script that sets none; config: settings
    that hold around it; background: processes that end with the session."""

    options: Options
    journal: Journal
    trace: Trace
    config: Mapping[str, Json]
    background: list[processes.Started]

    @property
    def script(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def jobs(self) -> int:
        """How many run side by side."""

    def left_s(self) -> float | None:
        """Of the budget; None where there is none."""


class ScriptRuns:
    """Runs the script. A folder for each seed holds what the run with compilation off gave."""

    def __init__(self, session: RunOfScript, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self._begun: dict[str, _Begun] = {}  # that nobody has waited for yet, by key

    def asked(self, mode: Mode, backend: str | None = None, again: bool = False) -> ScriptRun:
        """Under the settings under which the session examines the script, such as that it draws as eager
        does."""
        own = late_lines(SetFlags(self.session.config)) if mode.is_compiled and self.session.config else []
        return ScriptRun(seed=self.session.seed, mode=mode, backend=backend, again=again, late=tuple(own))

    def _folder_of(self, asked: RunOptions) -> Path:
        """Where the values are that a run is measured against."""
        folder = self.folder / f"{asked.seed}{' compiling' if asked.compiling else ''}"
        folder.mkdir(exist_ok=True)
        return folder

    def _values_of(self, asked: ScriptRun) -> Path:
        """Where the values are that calls gave compiled, of one way to compile."""
        way = replace(asked, mode=Mode.SUBSTITUTED, too=None, until=None, again=False)
        folder = self._folder_of(asked) / way.key
        folder.mkdir(exist_ok=True)
        return folder

    def values(self) -> Path:
        """The folder of the session's seed, in which `prepare` leaves what runs are measured against."""
        return self._folder_of(ScriptRun(seed=self.session.seed, mode=Mode.EAGER))

    def prepare(self) -> None:
        """Run the script with compilation off, unless its values are there."""
        self._prepare(self.session.seed)

    def _prepare(self, seed: int, compiling: bool = False) -> None:
        asked = ScriptRun(seed=seed, mode=Mode.EAGER, compiling=compiling)
        if not (self._folder_of(asked) / KEPT).exists():
            self._ended(asked)

    def run(self, asked: ScriptRun) -> PlainRun:
        return self.run_all([asked])[0]

    def run_all(self, asked: Sequence[ScriptRun]) -> list[PlainRun]:
        """One run for each, side by side as the jobs go; what the journal knows is not run again."""
        journal = self.session.journal
        fresh = [one for one in asked if one.key not in journal.answers]
        # The journal may know the run with compilation off; it has none of its values.
        for base in {(one.seed, one.compiling) for one in fresh if one.mode is not Mode.EAGER}:
            self._prepare(*base)
        for one in fresh:
            journal.started(one.key, one.to_json())
        ended, jobs = list[PlainRun](), self.session.jobs
        for first in range(0, len(fresh), jobs):
            some = fresh[first : first + jobs]
            self._begun |= {one.key: self._begin(one) for one in some if one.key not in self._begun}
            ended += map(self._ended, some)
        for one, run in zip(fresh, ended, strict=True):
            if not run.unfinished:  # the next one may have more time
                journal.done(one.key, wire.dump(run))
        known = {one.key: run for one, run in zip(fresh, ended, strict=True)}
        return [self._heard(known.get(o.key) or wire.load(PlainRun, journal.answers[o.key])) for o in asked]

    def begin_in_background(self, asked: ScriptRun) -> None:
        """Begin a compiled run in the background, which gives way to other work: first the run with
        compilation off, and once that has ended this one, which is measured against it. Called again, go on
        with it."""
        eager = self.asked(Mode.EAGER)
        if eager.key in self._begun and self._begun[eager.key].process.poll() is not None:
            self.run(eager)
        kept = (self._folder_of(eager) / KEPT).exists()
        next_one = asked if kept else eager
        if next_one.key not in self._begun and next_one.key not in self.session.journal.answers:
            begun = self._begun[next_one.key] = self._begin(next_one)
            begun.process.give_way()

    def _heard(self, run: PlainRun) -> PlainRun:
        """A criterion that the user gave stands in the place of what the script says of itself."""
        return run if self.session.options.criterion is None else without_its_own_words(run)

    def _begin(self, asked: ScriptRun) -> _Begun:
        options, mode = self.session.options, asked.mode
        folder = self._folder_of(asked)
        events = folder / f"{asked.key}.jsonl"  # of its own, since runs overlap
        run_options = {field.name: getattr(asked, field.name) for field in fields(RunOptions)}
        plain_options = PlainOptions(
            **run_options, folder=str(folder), values=str(self._values_of(asked)), events=str(events),
            root=str(ROOT.parent),
        )  # fmt: skip
        process = processes.start(
            [sys.executable, str(WATCHED), json.dumps(wire.dump(plain_options)), self.session.script],
            folder=options.folder,
            environment={**os.environ, **({} if mode.is_compiled else OFF)},
            capture=True,
        )
        self.session.background.append(process)
        return _Begun(process, events, time.monotonic())

    def _ended(self, asked: ScriptRun) -> PlainRun:
        """What a run gave, which is begun here unless it was before."""
        begun = self._begun.pop(asked.key, None) or self._begin(asked)
        left_s = self.session.left_s()
        most_s = min(self.session.options.timeout_s or SCRIPT_S, SCRIPT_S if left_s is None else left_s)
        run = read_run(begun.events, begun.process.wait(most_s))
        said = f"the script, {asked.mode.value}" + (f", {asked.backend}" if asked.backend else "")
        self.session.trace.span("plain runs", said, begun.begun_s)
        if asked.mode is Mode.EAGER:
            heard = json.dumps(wire.dump(self._heard(run)))
            (self._folder_of(asked) / KEPT).write_text(heard, encoding="utf-8")
        return run


def read_run(events: Path, done: processes.Ended) -> PlainRun:
    """What a watched run gave. events: the file that took what was seen."""
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    killed = processes.how_it_ended(done.status) if done.status is not None and done.status < 0 else None
    printed = done.out.splitlines()
    run = PlainRun(
        status=done.status, ended=killed, printed=tuple(printed[:MOST_LINES]), cut=digest_of_rest(printed)
    )  # fmt: skip
    noted = [_event(line) for line in lines]
    calls = [wire.load(CompiledCall, event) for event in noted if "index" in event]
    return with_events(run, calls, [event for event in noted if "index" not in event])


def _event(line: str) -> dict[str, Any]:
    """None of a line that was cut short: the script's process may have been killed."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
