"""The pass that leaves statements out of a script, against truths that are written down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bisector.core.case import WHOLE, Case
from bisector.core.model import DivergenceKind, Measurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reasons import SILENT
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.statements import AT_ONCE, MOST_TRIED, SHORT, fewest_statements
from bisector.core.script_text import program_lines, without
from tests.core.measurements import judged

HARMLESS = "".join(f"harmless.append({n})\n" for n in range(SHORT))
SCRIPT = f'''\
import torch

harmless = []
rates = {{"slow": 0.1}}
fast = torch.compile(lambda x: x * rates["slow"])
x = torch.ones(3)
first = fast(x)
{HARMLESS}rates["slow"] = 0.5
second = fast(x)
plain = x * rates["slow"]
print(plain, second)
torch.testing.assert_close(plain, second)
'''


class Truth:
    """It diverges where each of these texts is still in it."""

    def __init__(self, needed: Collection[str], shown: str = "output[0]") -> None:
        self.needed = needed
        self.shown = (Signature(f"call[0].{shown}", DivergenceKind.VALUE),)
        self.asked: list[Case] = []

    def __call__(self, case: Case) -> Trial:
        self.asked.append(case)
        left = without(SCRIPT, case.left_out)
        outcome = Outcome.FAIL if all(text in left for text in self.needed) else Outcome.PASS
        return Trial(case, outcome, replace(judged(outcome), signatures=self.shown))

    def at_once(self, cases: Sequence[Case]) -> Trial | None:
        assert len(cases) <= AT_ONCE
        return next((trial for trial in map(self, cases) if trial.outcome is Outcome.FAIL), None)


def problem(truth: Truth, path: str = "call[1].output[0]") -> Problem:
    shown = (Signature(path, DivergenceKind.VALUE),)
    no_graph: Any = None
    default = ProbeResult(Outcome.FAIL, SILENT, Measurement(), shown)
    return Problem(WHOLE, default, truth, no_graph, at_once=truth.at_once)


NEEDED = ("first = fast(x)", '["slow"] = 0.5', "second = fast(x)")


def test_reports_and_needless_statements_go_until_it_is_short() -> None:
    truth = Truth(NEEDED)
    found = problem(truth)
    fewest_statements(found, SCRIPT)
    left = without(SCRIPT, found.case.left_out)
    assert all(text in left for text in NEEDED)
    assert "print" not in left and "assert_close" not in left and "plain =" not in left
    assert program_lines(left) <= SHORT
    assert len(truth.asked) <= MOST_TRIED + AT_ONCE


def test_a_script_that_is_short_once_its_reports_are_gone_costs_one_trial() -> None:
    truth = Truth(NEEDED)
    found = problem(truth)
    fewest_statements(found, SCRIPT.replace(HARMLESS, "\n" * SHORT))
    assert len(truth.asked) == 1 and found.case.left_out


def test_a_script_without_reports_is_made_shorter_too() -> None:
    quiet = SCRIPT[: SCRIPT.index("plain =")]
    found = problem(Truth(NEEDED))
    fewest_statements(found, quiet)
    assert program_lines(without(quiet, found.case.left_out)) <= SHORT


def test_where_the_guess_does_not_diverge_the_script_stays_whole() -> None:
    truth = Truth(("print(plain, second)",))
    found = problem(truth)
    fewest_statements(found, SCRIPT)
    assert found.case == WHOLE and len(truth.asked) == 2


def test_a_case_that_shows_another_sort_of_value_is_not_taken() -> None:
    found = problem(Truth(NEEDED, "argument[0].released"))
    fewest_statements(found, SCRIPT)
    assert found.case == WHOLE


@pytest.mark.parametrize("path", ["line[3]", "comparison[0]", "end[0]"])
def test_what_shows_outside_the_calls_is_not_made_shorter(path: str) -> None:
    truth = Truth(())
    fewest_statements(problem(truth, path), SCRIPT)
    assert not truth.asked


def test_no_more_is_asked_than_is_allowed() -> None:
    truth = Truth((*NEEDED, HARMLESS))
    fewest_statements(problem(truth), SCRIPT)
    assert len(truth.asked) <= MOST_TRIED + AT_ONCE
