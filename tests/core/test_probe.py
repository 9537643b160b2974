from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from bisector.core.model import Candidate, DivergenceKind, Measurement, Outcome, ProbeResult, Signature
from bisector.core.probe import Budgeted, BudgetSpent, Observed, Probe, Remembered, Repeated
from tests.core.helpers import FAIL, PASS, UNRESOLVED


@dataclass(frozen=True)
class Named:
    """The least a candidate must be."""

    name: str

    def key(self) -> str:
        return self.name


class Scripted:
    """Gives the results in turn, and keeps the candidates."""

    def __init__(self, results: Iterable[ProbeResult]) -> None:
        self._results = iter(results)
        self.candidates: list[object] = []

    def __call__(self, candidate: object) -> ProbeResult:
        self.candidates.append(candidate)
        return next(self._results)


def outcomes(*given: Outcome) -> Scripted:
    return Scripted(ProbeResult(outcome, f"trial {i}") for i, outcome in enumerate(given))


def test_a_candidate_is_probed_once_and_then_remembered_as_cached() -> None:
    probe = outcomes(FAIL, PASS)
    remembered = Remembered(probe)
    first = remembered(Candidate.deny(["fma:sub@mul_1", "fuse:a@b"]))
    again = remembered(Candidate.deny(["fuse:a@b", "fma:sub@mul_1"]))
    assert (first.outcome, first.reason, first.cached) == (FAIL, "trial 0", False)
    assert (again.outcome, again.reason, again.cached) == (FAIL, "trial 0", True)
    assert remembered.hits == 1
    assert remembered(Candidate.allow(["fma:sub@mul_1", "fuse:a@b"])).outcome is PASS
    assert len(probe.candidates) == 2


def test_a_probe_that_was_refused_is_not_remembered() -> None:
    budgets = iter(["no time left", None])
    remembered = Remembered(Budgeted(outcomes(FAIL), exhausted=lambda: next(budgets)))
    with pytest.raises(BudgetSpent, match="no time left"):
        remembered(Named("a"))
    assert not remembered(Named("a")).cached


@pytest.mark.parametrize("outcome", Outcome)
def test_trials_that_agree_give_the_first_result(outcome: Outcome) -> None:
    probe = outcomes(outcome, outcome, outcome)
    assert Repeated(probe, times=3)(Named("a")) == ProbeResult(outcome, "trial 0")
    assert len(probe.candidates) == 3


def test_trials_that_disagree_are_unresolved_and_say_how_often_each_came() -> None:
    signature = Signature("out[0]", DivergenceKind.VALUE)
    failed = ProbeResult(FAIL, "0.5 off", Measurement(code="abc"), (signature,))
    probe = Scripted([failed, ProbeResult(PASS, "agrees"), failed])
    result = Repeated(probe, times=3)(Named("a"))
    assert result.outcome is UNRESOLVED
    assert result.reason == "3 trials disagree: 1 PASS, 2 FAIL"
    assert result.signatures == ()
    assert result.measurement.code == "abc"


def test_a_trial_that_crashes_disagrees_with_one_that_fails() -> None:
    result = Repeated(outcomes(FAIL, UNRESOLVED), times=2)(Named("a"))
    assert result.reason == "2 trials disagree: 1 FAIL, 1 UNRESOLVED"


def test_less_than_one_trial_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Repeated(outcomes(), times=0)


def test_a_limit_of_probes_is_kept_and_named() -> None:
    probe = outcomes(FAIL, PASS, PASS)
    budgeted = Budgeted(probe, limit_probes=2)
    assert [budgeted(Named("a")).outcome, budgeted(Named("b")).outcome] == [FAIL, PASS]
    with pytest.raises(BudgetSpent) as caught:
        budgeted(Named("c"))
    assert caught.value.reason == str(caught.value) == "the budget of 2 probes is spent"
    assert budgeted.made == len(probe.candidates) == 2


def test_a_budget_of_another_kind_ends_with_its_own_reason() -> None:
    probe = outcomes(FAIL, PASS)
    budgeted = Budgeted(probe, exhausted=lambda: "60 s are over" if probe.candidates else None)
    budgeted(Named("a"))
    with pytest.raises(BudgetSpent, match="60 s are over"):
        budgeted(Named("b"))
    assert len(probe.candidates) == 1


def test_what_is_remembered_costs_no_budget() -> None:
    remembered = Remembered(Budgeted(outcomes(FAIL), limit_probes=1))
    assert [remembered(Named("a")).outcome for _ in range(3)] == [FAIL, FAIL, FAIL]


def test_each_result_is_told_with_its_candidate_also_one_from_memory() -> None:
    seen: list[tuple[str, Outcome, bool]] = []
    watched: Probe[Named] = Observed(
        Remembered(outcomes(FAIL, PASS)),
        lambda candidate, result: seen.append((candidate.name, result.outcome, result.cached)),
    )
    for name in "aab":
        watched(Named(name))
    assert seen == [("a", FAIL, False), ("a", FAIL, True), ("b", PASS, False)]
