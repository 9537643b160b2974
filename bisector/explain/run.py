"""One run: its directory, journal, workers, and clock with the budget."""

from __future__ import annotations

import contextlib
import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisector.core.cost import STAGES, Seconds
from bisector.core.endings import Ending, SecondsSpent
from bisector.core.messages import SCRIPT_S, SEED, LoadOptions, ProgramOptions, WorkerOptions
from bisector.core.model import Json
from bisector.core.options import Options
from bisector.core.printed import PrintedLine
from bisector.core.progress import Probed, Progress
from bisector.core.protocol import PROBES, Request
from bisector.core.reasons import Reason
from bisector.core.recorded import RecordedCall
from bisector.core.shares import Shares
from bisector.core.trace import Reach
from bisector.runner.head import head_of
from bisector.runner.journal import Journal
from bisector.runner.lab import Known, Lab
from bisector.runner.rundir import RunDirectory

from ..processes import Started, temporary_folder
from ..subject.targets import recognise, source_of
from ..tracing import SILENT, Trace
from . import environment
from .criteria import criterion_of_call
from .plain_runs import PlainRuns
from .script_runs import ScriptRuns
from .study import Study

if TYPE_CHECKING:
    from bisector.core.answer import Answer  # which is made of what uses a session

PROBE_S = 120.0  # for a probe of a graph of few calls
Words = Callable[[Reason], str]


class Clock:
    """Seconds of each stage that ran, and of CPU time; `exhausted` says when the budget is spent."""

    def __init__(self, budget_s: float | None, trace: Trace = SILENT) -> None:
        self.started = time.monotonic()
        self.trace = trace
        self.budget_s = budget_s
        self.seconds: dict[str, float] = {}
        self._cpu_s = _cpu_s()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            with self.trace.spent("stages", name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def exhausted(self) -> Ending | None:
        spent = self.budget_s is not None and self.elapsed() > self.budget_s
        return SecondsSpent(self.budget_s) if self.budget_s is not None and spent else None

    def left_s(self) -> float | None:
        """Of the budget; None where there is none."""
        return None if self.budget_s is None else max(self.budget_s - self.elapsed(), 0.0)

    def read(self) -> Seconds:
        """What was used by now, to hundredths."""
        taken = {stage: self.seconds.get(stage) for stage in STAGES}
        stages = {stage: None if took is None else round(took, 2) for stage, took in taken.items()}
        cpu = round(_cpu_s() - self._cpu_s, 2)
        return Seconds(total=round(self.elapsed(), 2), cpu=cpu, **stages)


def _cpu_s() -> float:
    """Of this process and of all that it started, and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# What a search will ask of a call: it is asked together with its verdict.
Foreseen = Callable[[Study, RecordedCall], Sequence[Request[Any]]]


@dataclass
class Session:
    """One run: where it writes, what it was asked, and how it tells of its progress.

    words: of the reason of a verdict, for the comment on top of a repro. They are the report's, which no
    stage imports; the command gives them.
    """

    run: RunDirectory
    options: Options
    progress: Progress
    words: Words

    def __post_init__(self) -> None:
        if not environment.has_gpu():
            environment.check_compiler()
        self.trace = Trace.begun(self.options.trace)
        self.trace.process("numbisect")
        self.clock = Clock(self.options.budget_s, self.trace)
        target = Path(self.options.target)
        head = head_of(target, self.options.shaping(), environment.compiler())
        self.journal = Journal(self.run.journal, head, target.name)
        keep_script(self.run, target)
        self.timeout_s = self.options.timeout_s or PROBE_S
        self.plain = PlainRuns(self.journal, self.trace)
        self.counts: Counter[str] = Counter()
        self.labs: list[Lab] = []
        self.background: list[Started] = []  # what runs besides the workers, and ends with them
        self.target = recognise(target, self.options.trust)
        self.environment: Mapping[str, str] = {}
        self.config: Mapping[str, Json] = self.options.config
        self.wanted: int | None = None
        self.given_seed = self.options.seed  # None: the worker takes the first, and says so
        self._scratch: Path | None = None
        self._script_runs: ScriptRuns | None = None
        self.known: Callable[[], Answer] | None = None  # the answer by now, once there is a verdict
        self.foreseen: Foreseen = lambda study, call: ()
        self.lab = self.new_lab("", lanes=self.options.jobs)

    @property
    def seed(self) -> int:
        """Of a script that sets none."""
        return SEED if self.given_seed is None else self.given_seed

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The `environment` of result.json. A compiler is asked for its version, once."""
        return environment.describe(self.lab.hello().machine)

    def scratch(self) -> Path:
        """A folder for what nobody wants to keep; the same at each call."""
        if self._scratch is None:
            self._scratch = temporary_folder()
        return self._scratch

    def begin_again(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        config: Mapping[str, Json] | None = None,
        wanted: int | None = None,
        seed: int | None = None,
    ) -> None:
        """With another worker, which the journal knows by this name; those that come later are like it.

        environment: variables that the script sets before it imports torch. config: settings that hold around
        every call. wanted: a call of a compiled function that is kept whatever was kept before.
        seed: of a script that sets none.
        """
        self.lab.close()
        self.environment = {**self.environment, **(environment or {})}
        self.config = {**self.config, **(config or {})}
        self.wanted = wanted
        self.given_seed = self.given_seed if seed is None else seed
        self.lab = self.new_lab(name, lanes=self.options.jobs)

    @property
    def script_runs(self) -> ScriptRuns:
        """Runs of the script itself, in a folder that goes with the session."""
        if self._script_runs is None:
            self._script_runs = ScriptRuns(self, self.scratch())
        return self._script_runs

    @property
    def script(self) -> str:
        """The file that is run: of a folder that was named, the one in it."""
        return str(self.target.path)

    @property
    def jobs(self) -> int:
        return self.lab.jobs

    def left_s(self) -> float | None:
        return self.clock.left_s()

    def program_lab(self, name: str, rung: str, lines: tuple[PrintedLine, ...]) -> Lab:
        """A lab whose subject is the whole script. rung, lines: as of ProgramOptions."""
        own, script = self.options.criterion is not None, self.script_runs
        program = ProgramOptions(
            self.script, str(script.values()), self.seed, rung, own, config=self.config, lines=lines
        )
        lab = self.new_lab(name, program)
        lab.prepare = script.prepare
        return lab

    def new_lab(self, name: str, program: ProgramOptions | None = None, lanes: int | None = None) -> Lab:
        """A lab with a worker of its own. lanes: as of WorkerOptions; without them each probe builds its own
        kernels, as a user's run does."""
        o = self.options
        load = LoadOptions(
            target=str(self.target.path),
            kind=self.target.kind.value,
            entry=o.entry,
            dynamic=o.dynamic,
            train=o.train,
            device=o.device,
            seed=self.given_seed,
            timeout_s=o.timeout_s or SCRIPT_S,
            wanted=self.wanted,
        )
        log, choices = str(self.run.log), str(self.run.choices)
        worker = WorkerOptions(
            load, self.config, not name, o.memory_bytes, o.folder, log,
            choices=choices, environment=self.environment, program=program, lanes=lanes,
            trace=self.trace.path,
        )  # fmt: skip
        limits = self.timeout_s, self._answered, name, self.clock.left_s, environment.doubts
        self.labs.append(Lab(worker, self.journal, o.jobs, *limits, self.trace, self.labs))
        return self.labs[-1]

    def _answered(self, request: Request[Any], answer: Any, known: Known) -> None:
        if isinstance(request, PROBES):
            self.counts["cached" if known is Known.JOURNAL else "run"] += 1
            self.progress("probe", Probed(request, answer))

    def study(self, call: RecordedCall) -> Study:
        if self.options.timeout_s is None:
            self.timeout_s = self.lab.timeout_s = max(self.timeout_s, probe_timeout(call.nodes))
        criterion = criterion_of_call(self.options, call.tolerances)
        trained = call.backward if self.options.train is None else self.options.train
        return Study(
            self.lab,
            call.index,
            criterion,
            criterion,
            train=self.options.train,
            reach=Reach.BACKWARD if trained else Reach.FORWARD,
            shares=Shares.ALL if call.is_large else Shares.NONE,
            repeat=self.options.repeat,
            exhausted=self.clock.exhausted,
            counts=self.counts,
            # What a compiler takes is little of the whole of a compile of a large graph.
            width=self.lab.jobs if call.is_large else self.lab.width,
        )

    def end_workers(self) -> None:
        """Nothing more is asked."""
        for process in self.background:
            process.kill()
        for lab in self.labs:
            lab.close()

    def close(self) -> None:
        self.end_workers()
        self.journal.close()
        self.trace.end()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def probe_timeout(calls: int) -> float:
    """Seconds that a probe of a graph may take: a training step compiles in a quarter of a second for each
    call of its forward graph, and this allows for a busy machine and for a graph with all values returned."""
    return max(PROBE_S, float(calls))


def keep_script(run: RunDirectory, target: Path) -> None:
    """Keeps the text of a script for the pages of its run, which are made anew from another folder, or once
    the script was edited; what is kept already is what the run is about. Raises CannotWrite."""
    if target.suffix != ".py" or run.script.exists():
        return
    try:
        source = source_of(target)
    except (OSError, UnicodeDecodeError, SyntaxError):
        return  # Python will say why it cannot run it
    run.write_text(run.script, source)
