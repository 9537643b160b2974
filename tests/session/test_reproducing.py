"""An early repro counts only if it is the program that would be run now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Outcome, ProbeResult
from bisector.core.search.minimal import MinimalSet
from bisector.session import reproducing
from bisector.session.answer import Answer, Repair
from bisector.session.fixes import from_repairs
from bisector.session.reproducing import Started, _code, _ended, _taken_over
from bisector.session.writing import header, named

RUNS_ON = [sys.executable, "-c", "import time; time.sleep(60)"]


def started(text: str, *commands: list[str]) -> Started:
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    return Started(WHOLE, None, text, "def fn(): ...", runs)


def writes(monkeypatch: pytest.MonkeyPatch, answer: Mapping[str, Any]) -> None:
    monkeypatch.setattr(reproducing, "written", lambda *given: answer)


def taken_over(early: Started) -> Started | None:
    return _taken_over(None, WHOLE, None, Answer("case.py", "run", {}), early)  # type: ignore[arg-type]


def test_a_header_that_says_more_is_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Cause: fma:sub@mul_1\nimport torch\nmul = x * y  # mul_1\n"
    writes(monkeypatch, {"text": text, "function": "mul = x * y  # mul_1\n"})
    found = taken_over(started("import torch\nmul = x * y\n"))
    assert found is not None
    assert (found.text, found.function) == (text, "mul = x * y  # mul_1\n")


@pytest.mark.parametrize("answer", [{"text": "import torch\nx = 1\n"}, {"error": "no"}])
def test_another_program_is_run_anew_and_the_early_one_ends(
    monkeypatch: pytest.MonkeyPatch, answer: Mapping[str, Any]
) -> None:
    writes(monkeypatch, answer)
    early = started("import torch\n", RUNS_ON)
    assert taken_over(early) is None
    assert early.runs[0].returncode is not None


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
