"""The repro file: written by the worker, run by plain Python both ways before it is claimed."""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from bisector.core.case import WHOLE, Case, Wording
from bisector.core.protocol import Failed, Repro
from bisector.processes import Started

from . import fixes, plain_python
from .answer import Answer
from .run import Session
from .study import Study
from .writing import Shown, named, written

MOST_FIXES = 3  # tried in the repro; each takes two fresh processes

DIVERGES, AGREES = 1, 0  # exit statuses of a repro
# A fix may change the compiler's command line, and so need a precompiled header that serves it alone.
OWN_HEADER = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}


@dataclass
class RunningRepro:
    """A repro that is running, both ways where there is a fix for `--fixed`."""

    shown: Shown
    text: str
    function: str
    runs: list[Started]

    def stop(self) -> None:
        """End what still runs."""
        for run in self.runs:
            run.end()


@dataclass(frozen=True)
class Ran:
    """fixed: whether `--fixed` repaired it in its own process; None: not tried. said: its first line."""

    diverges: bool
    fixed: bool | None
    said: str


def start(session: Session, shown: Shown, answered: Repro) -> RunningRepro:
    """Begin to run a repro that the worker has written."""
    path = session.run.repro
    session.run.write_text(path, answered.text)
    runs = [plain_python.start([str(path)])]
    if shown.fix:
        runs.append(plain_python.start([str(path), "--fixed"], **OWN_HEADER))
    return RunningRepro(shown, answered.text, answered.function, runs)


def start_early(
    session: Session, study: Study, case: Case, answer: Answer, decisions: Sequence[str]
) -> RunningRepro | None:
    """The first attempt of `reproduce`, as far as the fixes are known. decisions: those found by now."""
    expressible = _expressible(answer)
    if not expressible:
        return None
    shown = Shown(case, Wording.PUBLIC, expressible[0])
    with session.clock.stage("minimize"):
        answered = written(study, shown, answer, decisions)
        return None if isinstance(answered, Failed) else start(session, shown, answered)


def _ended(started: RunningRepro, timeout_s: float) -> Ran:
    ended = [plain_python.ended(run, timeout_s) for run in started.runs]
    fixed = ended[1][0] == AGREES if len(ended) > 1 else None
    return Ran(ended[0][0] == DIVERGES, fixed, ended[0][1])


def _expressible(answer: Answer) -> list[fixes.Fix]:
    """The fixes that plain torch can do, best first."""
    return [f for f, _ in answer.fixes if f.plain is not None]


def reproduce(
    session: Session, study: Study, case: Case, answer: Answer, early: RunningRepro | None
) -> Shown | None:
    """The minimal case, or the whole one where the minimal case does not diverge in plain Python.

    `--fixed` is the best fix that plain torch can express; one that cannot be written, or that does not
    hold in a fresh process, makes way for the next. early: an attempt that is running already. What the
    repro shows comes back, None where there is no repro.
    """
    agreeing: dict[str, str] = {}
    with session.clock.stage("minimize"):
        for attempt, wording in product(dict.fromkeys((case, WHOLE)), Wording):
            for fix in [*_expressible(answer)[:MOST_FIXES], None]:
                shown = Shown(attempt, wording, fix)
                tried = _try_repro(session, study, shown, answer, early, agreeing)
                early = None
                if tried is Tried.KEPT:
                    return shown
                if tried is Tried.OTHER_CASE:
                    break
    session.run.repro.unlink(missing_ok=True)
    return None


class Tried(enum.Enum):
    """What became of one repro: kept, or what could do better."""

    KEPT = "kept"
    OTHER_FIX = "another fix"
    OTHER_CASE = "another case"


def _try_repro(
    session: Session,
    study: Study,
    shown: Shown,
    answer: Answer,
    early: RunningRepro | None,
    agreeing: dict[str, str],
) -> Tried:
    """Write one repro and run it both ways. agreeing: programs that did not diverge, and what they said."""
    fix = shown.fix
    answered = written(study, shown, answer, named(answer, fix))
    if isinstance(answered, Failed):
        _note(answer, f"no repro could be written: {answered.reason}")
        return Tried.OTHER_FIX
    program = _code(answered.text)
    if program in agreeing:
        return _agreed(agreeing[program], shown, answer)
    started = _taken_over(shown, answered, early) or start(session, shown, answered)
    ran = _ended(started, session.timeout_s)
    session.run.write_text(session.run.repro, started.text)
    if not ran.diverges:
        agreeing[program] = ran.said
        return _agreed(ran.said, shown, answer)
    if ran.fixed is False:
        answer.notes.append(
            f"{fix and fix.id} does not repair the repro in a fresh process; it is not confirmed"
        )
        answer.fixes = [(f, c and f is not fix) for f, c in answer.fixes]
        return Tried.OTHER_FIX
    answer.repro = session.run.repro.name
    answer.repro_lines = len(started.function.strip().splitlines())
    answer.minimal_source = started.function
    said = "no fix that plain torch can express" if ran.fixed is None else "--fixed agrees"
    session.progress("repro", f"{answer.repro} diverges; {said}")
    return Tried.KEPT


def _agreed(said: str, shown: Shown, answer: Answer) -> Tried:
    if shown.wording is Wording.CAPTURED:  # the last that is tried of a case
        _note(answer, f"a repro of this case does not diverge in plain Python ({said})")
    return Tried.OTHER_CASE


def _note(answer: Answer, said: str) -> None:
    if said not in answer.notes:
        answer.notes.append(said)


def _taken_over(shown: Shown, now: Repro, early: RunningRepro | None) -> RunningRepro | None:
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
