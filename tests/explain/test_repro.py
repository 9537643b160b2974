"""A repro is claimed only if it diverges in a fresh process, a test only if its comparison fails in one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector import processes
from bisector.core.answer import Answer
from bisector.core.case import WHOLE, Case
from bisector.core.confirmed import Repair
from bisector.core.decision import DecisionId
from bisector.core.outcome import Outcome
from bisector.core.protocol import Repro
from bisector.core.repro_file import DIFFERS, usage
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import NotFailingAsTest, ReproAgrees, ReproOf
from bisector.errors import CannotWrite
from bisector.explain import repro
from bisector.explain.fixes import from_repairs
from bisector.explain.plain_runs import SCRIPT, PendingRun, PlainRuns, ScriptEnd
from bisector.explain.repro import (
    Reproduced,
    ReproPlan,
    RunningRepro,
    WrittenTest,
    _code,
    _ended,
    _taken_over,
    header,
    named,
)
from bisector.explain.repro_writers import GraphWriter
from bisector.report.reasons import words
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory
from tests.core.measurements import judged

SHOWN = ReproPlan(WHOLE, None)
RUNS_ON = [sys.executable, "-c", "import time; time.sleep(60)"]


def started(text: str, *commands: list[str]) -> RunningRepro:
    runs = [PendingRun(str(n), processes.start(c, capture=True)) for n, c in enumerate(commands)]
    return RunningRepro(SHOWN, text, "def fn(): ...", tuple(runs))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Any]:
    journal = Journal(tmp_path / "journal.jsonl")
    yield SimpleNamespace(
        run=RunDirectory(tmp_path),
        clock=SimpleNamespace(stage=lambda name: contextlib.nullcontext()),
        timeout_s=60.0,
        progress=lambda *said: None,
        words=words,
        plain=PlainRuns(journal),
    )
    journal.close()


@pytest.mark.parametrize("status", [1, 125])
def test_a_run_that_lacked_room_ends_the_run_and_is_not_remembered(session: Any, status: int) -> None:
    path = session.run.repro
    said = "print('cannot tell: CppCompileError\\nas: No space left on device')"
    path.write_text(f"{said}\nraise SystemExit({status})")
    run = session.plain.start(path, [SCRIPT])
    with pytest.raises(CannotWrite, match="No space left on device; make room there"):
        session.plain.ended(run, 60.0)
    assert run.key not in session.plain._journal.answers


def test_comments_that_say_more_are_the_same_program() -> None:
    text = "# Cause: fma:sub@mul_1\nimport torch\nmul = x * y  # mul_1\n"
    now = Repro(text, "mul = x * y  # mul_1\n")
    found = _taken_over(SHOWN, now, started("import torch\nmul = x * y\n"))
    assert found is not None
    assert (found.text, found.function) == (text, "mul = x * y  # mul_1\n")


@pytest.mark.parametrize(
    ("shown", "text"),
    [(SHOWN, "import torch\nx = 1\n"), (replace(SHOWN, case=Case(cut=("mul",))), "import torch\n")],
)
def test_another_program_is_run_anew_and_the_early_one_ends(shown: ReproPlan, text: str) -> None:
    early = started("import torch\n", RUNS_ON)
    assert _taken_over(shown, Repro(text, ""), early) is None
    assert early.runs[0].process is not None and early.runs[0].process.poll() is not None


def repro_of(
    monkeypatch: pytest.MonkeyPatch, session: Any, says: Callable[[ReproPlan], str]
) -> tuple[Reproduced, list[ReproPlan]]:
    """What is shown and what was run, where a repro is what `says` makes of it."""
    ran: list[ReproPlan] = []
    real = repro.start

    def start(session: Any, shown: ReproPlan, answered: Repro) -> RunningRepro:
        ran.append(shown)
        return real(session, shown, answered)

    def written(writer: Any, shown: ReproPlan, answer: Any, decisions: Any, said: Any) -> Repro:
        return Repro(says(shown), "def fn(): ...")

    monkeypatch.setattr(repro, "written", written)
    monkeypatch.setattr(repro, "start", start)
    writer: Any = GraphWriter
    answer = Answer("case.py", "run", {})
    return repro.reproduce(session, writer, Case(cut=("mul",)), answer, None), ran


def test_a_program_that_agreed_is_not_run_again(monkeypatch: pytest.MonkeyPatch, session: Any) -> None:
    found, ran = repro_of(
        monkeypatch, session, lambda shown: f"print('agrees')\nexit({int(shown.case == WHOLE)})\n"
    )
    assert found.shown == ReproPlan(WHOLE, None)
    assert [one.case == WHOLE for one in ran] == [False, True]
    assert found.notes == (ReproAgrees(ReproOf.GRAPH, "agrees"),)


def test_a_run_of_plain_python_is_journalled_and_not_repeated(session: Any) -> None:
    script = session.run.repro
    script.write_text("print('diverges')\nexit(1)\n")
    first = session.plain.ended(session.plain.start(script, [SCRIPT]), 60.0)
    again = session.plain.start(script, [SCRIPT])
    assert again.process is None
    assert first == session.plain.ended(again, 60.0) == ScriptEnd(1, "diverges")
    other = session.plain.start(script, [SCRIPT, "--fixed"])
    assert other.process is not None
    other.stop()


def test_a_run_that_took_too_long_is_run_again(session: Any) -> None:
    script = session.run.repro
    script.write_text("import time\ntime.sleep(60)\n")
    assert session.plain.ended(session.plain.start(script, [SCRIPT]), 0.2).status is None
    again = session.plain.start(script, [SCRIPT])
    assert again.process is not None
    again.stop()


def test_a_value_is_code_and_a_comment_is_not() -> None:
    assert _code("x = 1  # one\n# note\n") == _code("x = 1\n")
    assert _code('x = "# one"\n') != _code('x = "# two"\n')


def test_the_header_and_the_function_speak_of_the_same_decisions() -> None:
    members = tuple(map(DecisionId, ("vec:a@x", "fma:b@y", "pass:c@z")))
    cause, repair, fix = (MinimalSet((m,), Outcome.FAIL, (Outcome.PASS,)) for m in members)
    answer = Answer(
        "case.py",
        "run",
        {"torch": "2", "cxx": "g++", "cpu": "a CPU", "isa": "avx2"},
        causes=((cause, True), (fix, False)),
        repairs=(Repair(repair, True, 1.0), Repair(fix, False, 1.0)),
    )
    assert named(answer, None) == ["vec:a@x", "fma:b@y"]
    (denied,) = from_repairs([(fix, judged(Outcome.PASS))])
    assert named(answer, denied) == [*members]
    said = "\n".join(header(answer, denied, words))
    assert all(member in said for member in named(answer, denied))


@pytest.mark.parametrize(
    ("statuses", "diverges", "fixed"),
    [
        ((1, 0), True, True),
        ((1, 1), True, False),
        ((1,), True, None),
        ((0, 0), False, True),
        ((125,), False, None),
    ],
)
def test_only_status_1_diverges_and_only_status_0_is_fixed(
    session: Any, statuses: tuple[int, ...], diverges: bool, fixed: bool | None
) -> None:
    commands = [[sys.executable, "-c", f"print('said'); raise SystemExit({s})"] for s in statuses]
    ran = _ended(session, started("", *commands))
    assert (ran.diverges, ran.fixed, ran.first_line) == (diverges, fixed, "said")


def test_a_repro_that_does_not_end_neither_diverges_nor_is_fixed(session: Any) -> None:
    session.timeout_s = 0.2
    ran = _ended(session, started("", RUNS_ON, RUNS_ON))
    assert (ran.diverges, ran.fixed) == (False, False)
    assert ran.first_line == "no answer after 0.2 s"


BREAKS = "def test_it():\n    {}\n"


def made(text: str, session: Any) -> WrittenTest:
    """What came of a repro of this text as a test."""
    session.run.repro.write_text(text)
    return repro.write_test(session, SHOWN)


def test_a_repro_that_says_that_they_differ_is_kept_as_a_test(session: Any) -> None:
    text = f"{usage(fixed=False)}\n{DIFFERS}def test_it():\n    raise Differs('1, 2')\n"
    assert made(text, session) == WrittenTest("test_repro.py")
    kept = session.run.test.read_text()
    assert "python -m pytest test_repro.py" in kept
    assert kept.replace("test_repro.py", "repro.py").split() == text.split()


def test_a_test_is_run_where_there_is_no_pytest(session: Any, tmp_path: Path) -> None:
    text = f"{DIFFERS}def test_it():\n    raise Differs('1, 2')\n"
    (tmp_path / "test_it.py").write_text(text)
    hidden = f"import sys; sys.modules['pytest'] = None\n{repro._RUN_TEST}"
    run = session.plain.start(tmp_path / "test_it.py", ["-c", hidden, SCRIPT])
    assert session.plain.ended(run, 60.0) == ScriptEnd(repro.TEST_FAILED, "Differs: 1, 2")


@pytest.mark.live
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BREAKS.format("pass"), ""),
        (BREAKS.format("assert False, 'inside the compiler'"), "AssertionError: inside the compiler"),
        (BREAKS.format("raise RuntimeError('no such backend')"), "RuntimeError: no such backend"),
        ("import nothing_of_this_name", "CollectError: ImportError while importing test module"),
    ],
)
def test_a_test_that_passes_or_breaks_is_not_kept(text: str, said: str, session: Any) -> None:
    found = made(text, session)
    assert found.file is None
    assert isinstance(found.note, NotFailingAsTest) and found.note.printed.startswith(said)
    assert not session.run.test.exists()
