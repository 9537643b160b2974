"""The repro, and with `--as-test` the same text as a test file: what is written of a case, with the comment
that stands on top. Before they are claimed, Python runs the repro both ways, and pytest the test, which is to
fail as it should.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bisector.core.answer import Answer
from bisector.core.case import WHOLE, Case
from bisector.core.decision import DecisionId
from bisector.core.evidence import FALLBACK_RANDOM
from bisector.core.fix import Fix
from bisector.core.model import Measurement
from bisector.core.notes import Note
from bisector.core.own_folders import TEST
from bisector.core.progress import FailsAsTest, ReproDiverges
from bisector.core.protocol import Failed, Repro, ScriptSpec
from bisector.core.repro_file import TITLE, usage
from bisector.core.reproduced import Reproduced, ReproPlan, WrittenTest
from bisector.core.search_notes import (
    FixFailsInRepro,
    NotFailingAsTest,
    ReproAgrees,
    ReproNotWritten,
)
from bisector.core.verdict import VerdictClass

from . import fixes
from .plain_runs import SCRIPT, PendingRun
from .repro_writers import ReproWriter
from .run import Session, Words

MOST_FIXES = 3  # tried in the repro; each takes two fresh processes

DIVERGES, AGREES = 1, 0  # exit statuses of a repro
STUMBLES = ("Traceback", "  File ", "File ")  # begins what Python says of a file that it cannot run
# A fix may change the compiler's command line, and so need a precompiled header that serves it alone.
OWN_HEADER = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}


def written(
    writer: ReproWriter, shown: ReproPlan, answer: Answer, decisions: Sequence[DecisionId], words: Words
) -> Repro | Failed:
    """The repro. decisions: IDs whose nodes a reader must find in the function. words: as of Session."""
    spec = ScriptSpec(
        header=tuple(header(answer, shown.fix, words)),
        decisions=tuple(decisions),
        criterion=writer.criterion_of(shown.case),
        fix=shown.fix.plain if shown.fix else None,
        seed=0 if _draws(answer) else None,
        raises=_exception(answer.default),
    )
    return writer.write(shown.case, spec)


def _draws(answer: Answer) -> bool:
    """Whether the values hang on a generator."""
    drawn = answer.verdict is not None and answer.verdict.kind is VerdictClass.RANDOM
    return drawn or bool(answer.settings.get(FALLBACK_RANDOM))


def _exception(default: Measurement) -> str:
    """The type of what one of the two raised, of compiled where both did; "" where none did."""
    raised = next((output.raised for output in default.outputs if output.raised is not None), None)
    exception = (raised.compiled or raised.eager or "") if raised is not None else ""
    return exception.partition(":")[0].partition(" ")[0]


def header(answer: Answer, fix: Fix | None, words: Words) -> list[str]:
    """The comment: what was found, and where it was seen. words: as of Session."""
    lines = [TITLE]
    if answer.verdict is not None:
        lines.append(f"Verdict: {answer.verdict.kind.value}; {words(answer.verdict.reason)}.")
    for found, confirmed in answer.causes:
        if confirmed:
            lines.append(f"Cause: {' together with '.join(found.members)}")
    for repair in answer.repairs:
        if repair.confirmed:
            lines.append(f"Disabling {' and '.join(repair.found.members)} makes the outputs agree.")
    if fix is not None:
        lines.append(f"Fix (--fixed): {fix.id}")
    env = answer.environment
    lines.append(f"Seen with torch {env['torch']}, {env['cxx']}, {env['cpu']} ({env['isa']}).")
    return lines


def named(answer: Answer, fix: Fix | None) -> list[DecisionId]:
    """The decisions that the comment names."""
    sets = [found for found, confirmed in answer.causes if confirmed]
    sets += [repair.found for repair in answer.repairs if repair.confirmed]
    return [*(member for found in sets for member in found.members), *(fix.decisions if fix else ())]


@dataclass(frozen=True)
class RunningRepro:
    """A repro that is running, both ways where there is a fix for `--fixed`."""

    shown: ReproPlan
    text: str
    function: str
    runs: tuple[PendingRun, ...]

    def stop(self) -> None:
        """End what still runs."""
        for run in self.runs:
            run.stop()


@dataclass(frozen=True)
class Ran:
    """fixed: whether `--fixed` repaired it in its own process; None: not tried. first_line: of its output."""

    diverges: bool
    fixed: bool | None
    first_line: str


def start(session: Session, shown: ReproPlan, answered: Repro) -> RunningRepro:
    """Begin to run a repro that the worker has written."""
    path = session.run.repro
    session.run.write_text(path, answered.text)
    runs = [session.plain.start(path, [SCRIPT])]
    if shown.fix:
        runs.append(session.plain.start(path, [SCRIPT, "--fixed"], **OWN_HEADER))
    return RunningRepro(shown, answered.text, answered.function, tuple(runs))


def start_early(
    session: Session, writer: ReproWriter, case: Case, answer: Answer, decisions: Sequence[DecisionId]
) -> RunningRepro | None:
    """The first attempt of `reproduce`, as far as the fixes are known. decisions: those found by now."""
    expressible = _expressible(answer)
    if not expressible:
        return None
    shown = ReproPlan(case, expressible[0])
    with session.clock.stage("minimize"):
        answered = written(writer, shown, answer, decisions, session.words)
        return None if isinstance(answered, Failed) else start(session, shown, answered)


def _ended(session: Session, started: RunningRepro) -> Ran:
    ended = [session.plain.ended(run, session.timeout_s) for run in started.runs]
    fixed = ended[1].status == AGREES if len(ended) > 1 else None
    # Python itself ends with the same status where it cannot read the file.
    diverges = ended[0].status == DIVERGES and not ended[0].first_line.startswith(STUMBLES)
    return Ran(diverges, fixed, ended[0].first_line)


def _expressible(answer: Answer) -> list[fixes.Fix]:
    """The fixes that plain torch can do, best first."""
    return [f for f, _ in answer.fixes if f.plain is not None]


def reproduce(
    session: Session, writer: ReproWriter, case: Case, answer: Answer, early: RunningRepro | None = None
) -> Reproduced:
    """The minimal case, or the whole one where the minimal case does not diverge in plain Python.

    `--fixed` is the best fix that plain torch can express; one that cannot be written, or that does not
    hold in a fresh process, makes way for the next. early: an attempt that is running already.
    """
    with session.clock.stage("minimize"):
        attempts = _Attempts(session, writer, answer, early)
        for attempt in dict.fromkeys((case, WHOLE)):
            for fix in [*_expressible(answer)[:MOST_FIXES], None]:
                kept = attempts.attempt(ReproPlan(attempt, fix))
                if isinstance(kept, Reproduced):
                    return kept
                if kept is Next.CASE:
                    break
    session.run.repro.unlink(missing_ok=True)
    return Reproduced(
        refuted=frozenset(attempts.refuted), agrees=bool(attempts.agreeing), notes=tuple(attempts.notes)
    )


class Next(enum.Enum):
    """What could do better than a repro that was tried."""

    FIX = "another fix"
    CASE = "another case"


@dataclass
class _Attempts:
    """Repros tried one after the other. agreeing: programs that did not diverge, and what they printed."""

    session: Session
    writer: ReproWriter
    answer: Answer
    early: RunningRepro | None
    agreeing: dict[str, str] = field(default_factory=dict)
    refuted: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def attempt(self, shown: ReproPlan) -> Reproduced | Next:
        """Write one repro and run it both ways."""
        decisions = named(self.answer, shown.fix)
        answered = written(self.writer, shown, self.answer, decisions, self.session.words)
        if isinstance(answered, Failed):
            return self._give_up(ReproNotWritten(self.writer.of, answered.reason), Next.FIX)
        program = _code(answered.text)
        if program in self.agreeing:
            return self._agreed(self.agreeing[program])
        early, self.early = self.early, None
        started = _taken_over(shown, answered, early) or start(self.session, shown, answered)
        ran = _ended(self.session, started)
        self.session.run.write_text(self.session.run.repro, started.text)
        if not ran.diverges:
            self.agreeing[program] = ran.first_line
            return self._agreed(ran.first_line)
        if shown.fix is not None and ran.fixed is False:
            self.refuted.append(shown.fix.id)
            return self._give_up(FixFailsInRepro(shown.fix.id), Next.FIX)
        self.session.progress("repro", ReproDiverges(self.session.run.repro.name, ran.fixed is not None))
        return Reproduced(
            shown,
            self.session.run.repro.name,
            started.function or None,
            frozenset(self.refuted),
            notes=tuple(self.notes),
        )

    def _agreed(self, first_line: str) -> Next:
        return self._give_up(ReproAgrees(self.writer.of, first_line), Next.CASE)

    def _give_up(self, note: Note, then: Next) -> Next:
        if note not in self.notes:
            self.notes.append(note)
        return then


def _taken_over(shown: ReproPlan, now: Repro, early: RunningRepro | None) -> RunningRepro | None:
    """The early attempt, if it is this one, with the text whose comments say what is known by now."""
    if early is None:
        return None
    if early.shown != shown or _code(now.text) != _code(early.text):
        early.stop()
        return None
    return replace(early, text=now.text, function=now.function)


def _code(text: str) -> str:
    """The program without its comments."""
    return ast.dump(ast.parse(text))


TEST_FAILED = 3  # exit status where the test says that they differ; another error is no divergence
# As `python -m pytest` runs it, but without what the folders around it say; without pytest it is called.
_RUN_TEST = f"""\
import contextlib, os, runpy, sys
raised = []
class Seen:
    def pytest_exception_interact(self, call):
        raised.append(call.excinfo.value)
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    try:
        import pytest
        own = ["-c", os.devnull, "--noconftest", "-p", "no:cacheprovider"]
        pytest.main([*own, sys.argv[1]], plugins=[Seen()])
    except ModuleNotFoundError:
        try:
            [value() for name, value in runpy.run_path(sys.argv[1]).items() if name.startswith("test_")]
        except BaseException as error:
            raised.append(error)
for error in raised[:1]:
    print(f"{{type(error).__name__}}: {{error}}".splitlines()[0])
    sys.exit({TEST_FAILED} if type(error).__name__ == "Differs" else 125)
"""
CACHES_OFF = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
NO_OPTIONS = {"PYTEST_ADDOPTS": ""}


def write_test(session: Session, shown: ReproPlan) -> WrittenTest:
    """Keep the repro as a test, under a name that pytest looks for, if it fails there."""
    path, fixed = session.run.test, shown.fix is not None
    text = session.run.repro.read_text(encoding="utf-8").replace(usage(fixed), usage(fixed, TEST), 1)
    with session.clock.stage("minimize"):
        session.run.write_text(path, text)
        run = session.plain.start(path, ["-c", _RUN_TEST, SCRIPT], **CACHES_OFF, **NO_OPTIONS)
        ended = session.plain.ended(run, session.timeout_s)
    if ended.status != TEST_FAILED:
        path.unlink()
        return WrittenTest(note=NotFailingAsTest(ended.first_line))
    session.progress("test", FailsAsTest(path.name, ended.first_line))
    return WrittenTest(path.name)
