"""Several trials of one candidate are one result."""

import pytest

from bisector.core.budget import BudgetSpent
from bisector.core.endings import SecondsSpent
from bisector.core.judge import together
from bisector.core.model import DivergenceKind, Measurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.report.reasons import words
from tests.core.helpers import FAIL, PASS, UNRESOLVED
from tests.core.measurements import judged


def trials(*outcomes: Outcome) -> list[ProbeResult]:
    return [judged(outcome, f"trial {i}") for i, outcome in enumerate(outcomes)]


@pytest.mark.parametrize("outcome", Outcome)
def test_trials_that_agree_give_the_first_result(outcome: Outcome) -> None:
    assert together(trials(outcome, outcome, outcome)) == judged(outcome, "trial 0")


def test_trials_that_disagree_are_unresolved_and_say_how_often_each_came() -> None:
    signature = Signature("out[0]", DivergenceKind.VALUE)
    failed = ProbeResult(FAIL, Message("0.5 off"), Measurement(code="abc"), (signature,))
    result = together([failed, judged(PASS, "agrees"), failed])
    assert result.outcome is UNRESOLVED
    assert words(result.reason) == "3 trials disagree: 1 PASS, 2 FAIL"
    assert result.signatures == ()
    assert result.measurement.code == "abc"


def test_a_trial_that_crashes_disagrees_with_one_that_fails() -> None:
    assert words(together(trials(FAIL, UNRESOLVED)).reason) == "2 trials disagree: 1 FAIL, 1 UNRESOLVED"


def test_a_spent_budget_says_which() -> None:
    assert BudgetSpent(SecondsSpent(60)).reason == SecondsSpent(60)
