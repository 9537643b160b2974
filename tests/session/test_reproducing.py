"""An early repro counts only if it is the program that would be run now."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector.core.case import WHOLE, Case, Wording
from bisector.core.model import Outcome, ProbeResult
from bisector.core.search.minimal import MinimalSet
from bisector.session import reproducing
from bisector.session.answer import Answer, Repair
from bisector.session.fixes import from_repairs
from bisector.session.reproducing import Started, _code, _ended, _taken_over
from bisector.session.writing import Shown, header, named

SHOWN = Shown(WHOLE, Wording.PUBLIC, None)
RUNS_ON = [sys.executable, "-c", "import time; time.sleep(60)"]


def started(text: str, *commands: list[str]) -> Started:
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    return Started(SHOWN, text, "def fn(): ...", runs)


def test_comments_that_say_more_are_the_same_program() -> None:
    text = "# Cause: fma:sub@mul_1\nimport torch\nmul = x * y  # mul_1\n"
    now = {"text": text, "function": "mul = x * y  # mul_1\n"}
    found = _taken_over(SHOWN, now, started("import torch\nmul = x * y\n"))
    assert found is not None
    assert (found.text, found.function) == (text, "mul = x * y  # mul_1\n")


@pytest.mark.parametrize(
    ("shown", "text"),
    [(SHOWN, "import torch\nx = 1\n"), (replace(SHOWN, wording=Wording.CAPTURED), "import torch\n")],
)
def test_another_program_is_run_anew_and_the_early_one_ends(shown: Shown, text: str) -> None:
    early = started("import torch\n", RUNS_ON)
    assert _taken_over(shown, {"text": text, "function": ""}, early) is None
    assert early.runs[0].returncode is not None


def repro_of(
    monkeypatch: pytest.MonkeyPatch, folder: Path, says: Callable[[Shown], str]
) -> tuple[Answer, Shown | None, list[Shown]]:
    """The answer, what is shown and what was run, where a repro is what `says` makes of it."""
    ran: list[Shown] = []
    real = reproducing.start

    def start(session: Any, shown: Shown, answered: Mapping[str, Any]) -> Started:
        ran.append(shown)
        return real(session, shown, answered)

    def written(study: Any, shown: Shown, answer: Any, decisions: Any) -> Mapping[str, Any]:
        return {"text": says(shown), "function": "def fn(): ..."}

    monkeypatch.setattr(reproducing, "written", written)
    monkeypatch.setattr(reproducing, "start", start)
    session: Any = SimpleNamespace(
        run=SimpleNamespace(repro=folder / "repro.py"),
        clock=SimpleNamespace(stage=lambda name: contextlib.nullcontext()),
        timeout_s=60.0,
        progress=lambda *said: None,
    )
    study: Any = None
    answer = Answer("case.py", "run", {})
    return answer, reproducing.reproduce(session, study, Case(cut=("mul",)), answer, None), ran


def test_where_public_calls_do_not_diverge_the_captured_ones_are_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer, shown, ran = repro_of(
        monkeypatch, tmp_path, lambda shown: f"exit({int(shown.wording is Wording.CAPTURED)})\n"
    )
    assert shown is not None and shown.wording is Wording.CAPTURED
    assert [one.wording for one in ran] == [Wording.PUBLIC, Wording.CAPTURED]
    assert answer.notes == []


def test_a_program_that_agreed_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer, shown, ran = repro_of(
        monkeypatch, tmp_path, lambda shown: f"print('agrees')\nexit({int(shown.case == WHOLE)})\n"
    )
    assert shown == Shown(WHOLE, Wording.PUBLIC, None)
    assert [one.case == WHOLE for one in ran] == [False, True]
    assert answer.notes == ["a repro of this case does not diverge in plain Python (agrees)"]


def test_a_value_is_code_and_a_comment_is_not() -> None:
    assert _code("x = 1  # one\n# note\n") == _code("x = 1\n")
    assert _code('x = "# one"\n') != _code('x = "# two"\n')


def test_the_header_and_the_function_speak_of_the_same_decisions() -> None:
    members = ("vec:a@x", "fma:b@y", "pass:c@z")
    cause, repair, fix = (MinimalSet((m,), Outcome.FAIL, (Outcome.PASS,)) for m in members)
    answer = Answer("case.py", "run", {"torch": "2", "cxx": "g++", "cpu": "a CPU", "isa": "avx2"})
    answer.causes = [(cause, True), (fix, False)]
    answer.repairs = [Repair(repair, True, 1.0), Repair(fix, False, 1.0)]
    assert named(answer, None) == ["vec:a@x", "fma:b@y"]
    (denied,) = from_repairs([(fix, ProbeResult(Outcome.PASS, ""))])
    assert named(answer, denied) == [*members]
    said = "\n".join(header(answer, denied))
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
    statuses: tuple[int, ...], diverges: bool, fixed: bool | None
) -> None:
    commands = [[sys.executable, "-c", f"print('said'); raise SystemExit({s})"] for s in statuses]
    ran = _ended(started("", *commands), 30.0)
    assert (ran.diverges, ran.fixed, ran.said) == (diverges, fixed, "said")


def test_a_repro_that_does_not_end_neither_diverges_nor_is_fixed() -> None:
    ran = _ended(started("", RUNS_ON, RUNS_ON), 0.2)
    assert (ran.diverges, ran.fixed) == (False, False)
    assert ran.said == "no answer after 0.2 s"
