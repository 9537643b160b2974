"""The minimal case: the pure reducer, asking through the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisector.core.case import WHOLE, Case
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.probe import BudgetSpent
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.reduce import reduce

from .study import Study


@dataclass(frozen=True)
class Anchor:
    """What must go on repairing a smaller case: a set of flags or decisions, each of them needed."""

    members: frozenset[str]

    def without_each(self) -> list[frozenset[str]]:
        return [self.members - {m} for m in sorted(self.members)] if len(self.members) > 1 else []


@dataclass
class Reduced:
    """The smallest case found, its default compile, and why it is not smaller if a budget ended it."""

    case: Case
    default: ProbeResult
    stopped_because: str | None = None


def reduce_case(study: Study, default: ProbeResult, anchor: Anchor | None) -> Reduced:
    """Reduce the whole subject while it diverges alike and the anchor repairs it."""
    problem = Problem(
        WHOLE, default, lambda cases: _trials(study, anchor, cases), study.describe, lanes=study.lab.jobs
    )
    try:
        reduce(problem)
    except BudgetSpent as spent:
        return Reduced(problem.case, problem.default, spent.reason)
    return Reduced(problem.case, problem.default)


def _trials(study: Study, anchor: Anchor | None, cases: Sequence[Case]) -> list[Trial]:
    """FAIL where the case is interesting. What only diverges costs one probe, what counts a few."""
    defaults = study.probe_all([(Candidate(), case) for case in cases])
    trials = []
    for case, default in zip(cases, defaults, strict=True):
        outcome = default.outcome
        if outcome is Outcome.FAIL and anchor is not None:
            outcome = _held(study, anchor, case)
        trials.append(Trial(case, outcome, default))
        if outcome is Outcome.FAIL:
            break  # the first interesting case is taken; the others would be asked in vain
    return trials


def _held(study: Study, anchor: Anchor, case: Case) -> Outcome:
    """FAIL where the anchor repairs this case and no smaller part of it does."""
    parts = [(anchor.members, Outcome.PASS), *((p, Outcome.FAIL) for p in anchor.without_each())]
    results = study.probe_all([(study.deny(members), case) for members, _ in parts])
    holds = all(r.outcome is wanted for r, (_, wanted) in zip(results, parts, strict=True))
    return Outcome.FAIL if holds else Outcome.UNRESOLVED
