"""The script as its user runs it, and the same with compilation off: processes of their own, in which nothing
was imported before the script's first line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import bisector
from bisector import processes, wire
from bisector.core.backends import first_bad, last_rung, rungs_before
from bisector.core.criterion import Criterion
from bisector.core.fix_source import (
    CompileAnew,
    LeaveToPython,
    PlainFix,
    SetFlags,
    compile_arguments,
    late_lines,
    statements,
)
from bisector.core.messages import SCRIPT_S
from bisector.core.model import Outcome
from bisector.core.own_difference import own_difference
from bisector.core.printed import MOST_LINES, STILL, PrintedLine, apart, digest_of_rest, moving
from bisector.core.program import (
    KEPT,
    CompiledCall,
    EffectKind,
    Mode,
    PlainOptions,
    PlainRun,
    RunOptions,
    with_events,
    without_its_own_words,
)
from bisector.core.script_verdict import (
    DRAWS_ALIKE,
    NOT_ASKED,
    Channel,
    EqualInputs,
    channel,
    first_unequal,
)
from bisector.core.shown import ScriptResult, shown
from bisector.core.verdict import Verdict
from bisector.runner.journal import key_of

from .run import Session

ROOT = Path(bisector.__file__).parent
WATCHED = ROOT / "inductor" / "program" / "run_script.py"
# Both names, since torch has had each (torch/_dynamo/config.py).
OFF = {"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"}


@dataclass(frozen=True)
class Witness:
    """What the script shows. lines: the printed ones that differ. first_bad_backend: the first rung with
    which it shows the same; None where nothing was shown, no rung was tried, or it is not known; rung_unknown
    then says why. rung: the run with that rung, where it is not the script's own."""

    eager: PlainRun
    compiled: PlainRun
    shown: ScriptResult
    lines: tuple[PrintedLine, ...] = ()
    first_bad_backend: str | None = None
    rung_unknown: str = ""
    rung: PlainRun | None = None

    @property
    def last_rung(self) -> str:
        """The backend that the script itself names."""
        return last_rung(self.compiled.backends)


@dataclass(frozen=True, kw_only=True)
class _ScriptRun(RunOptions):
    """A run of the script. again: asked for a second time."""

    again: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"job": "program", **wire.dump(self)}

    @property
    def key(self) -> str:
        return key_of(self.to_json())


@dataclass(frozen=True)
class _Begun:
    """A run that was begun. events: the file that takes what is seen."""

    process: processes.Started
    events: Path


class Script:
    """Runs the script plainly. A folder for each seed holds what the run with compilation off gave."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self._begun: dict[str, _Begun] = {}  # that nobody has waited for yet, by key

    def _asked(self, mode: Mode, backend: str | None = None, again: bool = False) -> _ScriptRun:
        return _ScriptRun(seed=self.session.seed, mode=mode, backend=backend, again=again)

    def _of_seed(self, seed: int) -> Path:
        folder = self.folder / str(seed)
        folder.mkdir(exist_ok=True)
        return folder

    def witness(self, criterion: Criterion) -> Witness:
        """Two runs of the script, one after the other; two more where nothing but what is printed differs."""
        eager = self._run(self._asked(Mode.EAGER))
        if eager.unfinished:  # there is nothing whole to compare with
            return Witness(eager, PlainRun(), shown(eager, PlainRun(status=0), criterion))
        compiled = self._run(self._asked(Mode.COMPILED))
        found, lines = self._with_lines(eager, compiled, self._asked(Mode.COMPILED, again=True), criterion)
        return Witness(eager, compiled, found, lines)

    def _with_lines(
        self, eager: PlainRun, compiled: PlainRun, second: _ScriptRun, criterion: Criterion
    ) -> tuple[ScriptResult, tuple[PrintedLine, ...]]:
        """What two runs show, and where nothing but what they print differs, the lines that do. second: the
        compiled run once more, asked where that is so: times, addresses and what is drawn without a seed
        differ from run to run."""
        found = shown(eager, compiled, criterion)
        if found.diverges or compiled.unfinished or not apart(eager, compiled):
            return found, ()
        pairs, still = list[tuple[PlainRun, PlainRun]](), STILL
        for first, asked in ((eager, self._asked(Mode.EAGER_AGAIN)), (compiled, second)):
            run = self._run(asked)
            if run.unfinished:
                said = f"run again, to see whether that moves, the script {run.unfinished}"
                return ScriptResult(Outcome.UNRESOLVED, f"what it prints differs; {said}"), ()
            pairs.append((first, run))
            still = moving(*pairs)
            if not apart(eager, compiled, still):
                return found, ()
        lines = still.counted(apart(eager, compiled, still))
        return shown(eager, compiled, criterion, lines), lines

    def by_seed(self, seeds: Sequence[int], criterion: Criterion) -> dict[int, Outcome]:
        """Whether the script diverges with each of the seeds, by more than what it prints."""
        eager = self._run_all([_ScriptRun(seed=seed, mode=Mode.EAGER) for seed in seeds])
        compiled = self._run_all([_ScriptRun(seed=seed, mode=Mode.COMPILED) for seed in seeds])
        runs = zip(seeds, eager, compiled, strict=True)
        return {seed: shown(off, on, criterion).outcome for seed, off, on in runs}

    def under(self, fix: PlainFix, criterion: Criterion) -> tuple[ScriptResult, PlainRun, PlainRun]:
        """What the script shows where the lines of a fix are in it, that run, and the one with compilation
        off. Settings under which the session examines the script, so that it draws as eager does, hold there
        too."""
        asked = self._under(fix)
        eager, run = self._run(self._asked(Mode.EAGER)), self._run(asked)
        found, _ = self._with_lines(eager, run, replace(asked, again=True), criterion)
        return found, run, eager

    def compiled(self) -> PlainRun:
        """The script as its user runs it."""
        return self._run(self._asked(Mode.COMPILED))

    def begin_under(self, fix: PlainFix) -> None:
        """Begin what `under` will run, beside other work and giving way to it: the run with compilation off,
        and once that has ended the other one, which is measured against it. Called again, go on with it."""
        eager = self._asked(Mode.EAGER)
        if eager.key in self._begun and self._begun[eager.key].process.poll() is not None:
            self._run(eager)
        kept = (self._of_seed(eager.seed) / KEPT).exists()
        asked = self._under(fix) if kept else eager
        if asked.key not in self._begun and asked.key not in self.session.journal.answers:
            begun = self._begun[asked.key] = self._begin(asked)
            begun.process.give_way()

    def _under(self, fix: PlainFix) -> _ScriptRun:
        own = late_lines(SetFlags(self.session.config)) if self.session.config else []
        late = (*own, *late_lines(fix))
        return replace(
            self._asked(Mode.COMPILED),
            early=statements(fix).early,
            late=late,
            arguments=compile_arguments(fix),
            disabled=tuple(sorted(fix.lines.values())) if isinstance(fix, LeaveToPython) else (),
            anew=tuple(sorted(fix.calls)) if isinstance(fix, CompileAnew) else (),
        )

    def again(self, criterion: Criterion) -> ScriptResult:
        """How a second run with compilation off stands to the first."""
        eager = self._run(self._asked(Mode.EAGER))
        return shown(eager, self._run(self._asked(Mode.EAGER_AGAIN)), criterion)

    def equal_inputs(self, witness: Witness, criterion: Criterion) -> EqualInputs:
        """The first call that differs from eager on equal inputs, up to that at which the script diverges."""
        if witness.shown.call is None or witness.shown.exception is not None:
            return NOT_ASKED
        modes = (Mode.EAGER_BESIDE, Mode.COMPILED_BESIDE)
        asked = [replace(self._asked(mode), until=witness.shown.call) for mode in modes]
        control, compiled = self._run_all(asked)
        found = first_unequal(control, compiled, witness.shown, criterion)
        if found.place is not None or found.unknown:
            return found
        return replace(found, channel=self._channel(witness.shown.call))

    def _channel(self, last: int) -> Channel:
        """What carries the difference to a call, where no call up to it makes one on equal inputs. last: its
        place."""
        kept = self._run(replace(self._asked(Mode.COMPILED_KEPT), until=last))
        asked = replace(self._asked(Mode.SUBSTITUTED), until=last)
        found = channel(kept, self._run(asked), last)
        if not found.at:
            return found
        slow = channel(kept, self._run(replace(asked, slow=True)), last)
        return replace(found, is_clock=slow.is_values)

    def drawing_alike(self, witness: Witness, criterion: Criterion) -> ScriptResult | None:
        """What the script shows where compiled draws from eager's random streams; None where no call up to
        that at which it diverges draws."""
        last = witness.shown.call
        calls = witness.eager.calls if last is None else witness.eager.calls[: last + 1]
        if not any(effect.kind is EffectKind.DRAWS for call in calls for effect in call.effects):
            return None
        return self.under(SetFlags(dict.fromkeys(DRAWS_ALIKE, True)), criterion)[0]

    def own_difference(self, eager: PlainRun) -> Verdict | None:
        """Whether the script says with compilation off too that its sides differ, and why."""
        codes = tuple(dict.fromkeys(call.code for call in eager.calls if call.code))
        asked = replace(self._asked(Mode.EAGER_AGAIN), codes=codes)
        return own_difference(eager, lambda kind: self._run(replace(asked, put_back=kind)))

    def prepared(self) -> Path:
        """The folder of the session's seed, with what each run of the program is measured against."""
        return self._prepared(self.session.seed)

    def _prepared(self, seed: int) -> Path:
        if not (self._of_seed(seed) / KEPT).exists():
            self._ended(_ScriptRun(seed=seed, mode=Mode.EAGER))
        return self._of_seed(seed)

    def with_backend(self, witness: Witness, criterion: Criterion) -> Witness:
        """Names the first rung that shows a divergence, from Dynamo alone to the script's own backend."""
        rungs = rungs_before(witness.last_rung)
        runs = self._run_all([self._asked(Mode.COMPILED, rung) for rung in rungs])
        outcomes = [
            (rung, shown(witness.eager, run, criterion, witness.lines).outcome)
            for rung, run in zip(rungs, runs, strict=True)
        ]
        first, unknown = first_bad([*outcomes, (witness.last_rung, witness.shown.outcome)])
        run = dict(zip(rungs, runs, strict=True)).get(first or "")
        return replace(witness, first_bad_backend=first, rung_unknown=unknown, rung=run)

    def _run(self, asked: _ScriptRun) -> PlainRun:
        return self._run_all([asked])[0]

    def _run_all(self, asked: Sequence[_ScriptRun]) -> list[PlainRun]:
        """One run for each, side by side as the jobs go; what the journal knows is not run again."""
        journal = self.session.journal
        fresh = [one for one in asked if one.key not in journal.answers]
        # The journal may know the run with compilation off; it has none of its values.
        for seed in {one.seed for one in fresh if one.mode is not Mode.EAGER}:
            self._prepared(seed)
        for one in fresh:
            journal.started(one.key, one.to_json())
        ended, jobs = list[PlainRun](), self.session.lab.jobs
        for first in range(0, len(fresh), jobs):
            some = fresh[first : first + jobs]
            self._begun |= {one.key: self._begin(one) for one in some if one.key not in self._begun}
            ended += map(self._ended, some)
        for one, run in zip(fresh, ended, strict=True):
            if not run.unfinished:  # the next one may have more time
                journal.done(one.key, wire.dump(run))
        known = {one.key: run for one, run in zip(fresh, ended, strict=True)}
        return [self._heard(known.get(o.key) or wire.load(PlainRun, journal.answers[o.key])) for o in asked]

    def _heard(self, run: PlainRun) -> PlainRun:
        """A criterion that the user gave stands in the place of what the script says of itself."""
        return run if self.session.options.criterion is None else without_its_own_words(run)

    def _begin(self, asked: _ScriptRun) -> _Begun:
        options, mode = self.session.options, asked.mode
        folder = self._of_seed(asked.seed)
        events = folder / f"{asked.key}.jsonl"  # of its own, since runs go on beside each other
        run_options = {field.name: getattr(asked, field.name) for field in fields(RunOptions)}
        told = PlainOptions(
            **run_options, folder=str(folder), events=str(events), root=str(ROOT.parent)
        )
        process = processes.start(
            [sys.executable, str(WATCHED), _as_json(told), options.target],
            folder=options.folder,
            environment={**os.environ, **({} if mode.is_compiled else OFF)},
            capture=True,
        )
        self.session.beside.append(process)
        return _Begun(process, events)

    def _ended(self, asked: _ScriptRun) -> PlainRun:
        """What a run gave, which is begun here unless it was before."""
        begun = self._begun.pop(asked.key, None) or self._begin(asked)
        left_s = self.session.clock.left_s()
        most_s = min(self.session.options.timeout_s or SCRIPT_S, SCRIPT_S if left_s is None else left_s)
        run = read_run(begun.events, begun.process.wait(most_s))
        if asked.mode is Mode.EAGER:
            heard = json.dumps(wire.dump(self._heard(run)))
            (self._of_seed(asked.seed) / KEPT).write_text(heard, encoding="utf-8")
        return run


def _as_json(told: PlainOptions) -> str:
    undone = None if told.put_back is None else told.put_back.value
    return json.dumps(asdict(told) | {"mode": told.mode.value, "put_back": undone})


def script_of(session: Session) -> Script:
    """The script of a session, the same at each call, with a folder that goes with the session."""
    if session.script is None:
        session.script = Script(session, session.scratch())
    return session.script


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

