"""The minimal case: the pure reducer, asking through the study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisector.core.case import Case
from bisector.core.model import Candidate, DivergenceKind, Outcome, ProbeResult, node_of
from bisector.core.probe import BudgetSpent
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.reduce import reduce
from bisector.core.verdict import VerdictClass

from .study import Study
from .suspects import BACKWARD

# That each member of a repair is needed is asked of repairs up to this size: a probe for each member.
NEEDED_EACH = 3
# One diverging element in this many is the work of a step; rounding alone shows in most elements.
FEW = 100
# Inputs this many times as large: a difference in the last bit of one then stands over an absolute tolerance
# of a few such bits, and so does what a cancellation leaves of it.
MAGNIFYING = (2.0**8, 2.0**16)
MAGNIFIED_CALLS = 8  # of more than that what amplifies it is mostly there


@dataclass(frozen=True)
class Anchor:
    """What holds a smaller case to the same bug: every one of these repairs must go on repairing it, and
    none may do so without one of its members. All repairs are asked for, not the best alone, since a case
    that needs fewer decisions to go wrong has other repairs missing."""

    repairs: tuple[frozenset[str], ...]

    def demands(self) -> list[tuple[frozenset[str], Outcome]]:
        """Sets to deny, with the outcome that a case must give."""
        asked: dict[frozenset[str], Outcome] = dict.fromkeys(self.repairs, Outcome.PASS)
        for repair in self.repairs:
            if 1 < len(repair) <= NEEDED_EACH:
                asked.update({repair - {m}: Outcome.FAIL for m in sorted(repair)})
        return list(asked.items())

    def nodes(self) -> frozenset[str]:
        """The nodes of the graph that the repairs decide about."""
        return frozenset(node_of(m).removeprefix(BACKWARD) for r in self.repairs for m in r)


@dataclass
class Reduced:
    """The smallest case found, its default compile, and why it is not smaller if a budget ended it."""

    case: Case
    default: ProbeResult
    stopped_because: str | None = None


def reduce_case(
    study: Study,
    start: Case,
    default: ProbeResult,
    anchor: Anchor | None,
    run: Callable[[Problem], None] = reduce,
    verdict: VerdictClass | None = None,
) -> Reduced:
    """Reduce a case, whose default compile is given, while it diverges alike and the anchor repairs it.

    run: the passes; all of them, or one alone. verdict: of the whole; rounding that is amplified hardly shows
    without what amplifies it, and so is looked for on other input values too.
    """
    steering = _steering(default, verdict) if anchor is not None else None
    problem = Problem(
        start,
        default,
        lambda cases: _trials(study, anchor, steering, cases),
        study.describe,
        lanes=study.lab.jobs,
        decisive=anchor.nodes() if anchor is not None else frozenset(),
    )
    try:
        run(problem)
    except BudgetSpent as spent:
        return Reduced(problem.case, problem.default, spent.reason)
    return Reduced(problem.case, problem.default)


@dataclass(frozen=True)
class _Steering:
    """How other input values are looked for. magnifying: factors for a case without steps."""

    magnifying: tuple[float, ...] = ()


def _steering(default: ProbeResult, verdict: VerdictClass | None) -> _Steering | None:
    if _steps(default):
        return _Steering()
    return _Steering(MAGNIFYING) if verdict is VerdictClass.AMPLIFIED_ROUNDING else None


def _trials(
    study: Study, anchor: Anchor | None, steering: _Steering | None, cases: Sequence[Case]
) -> list[Trial]:
    """FAIL where the case is interesting. What only diverges costs one probe, what counts a few."""
    trials = _as_they_are(study, anchor, cases)
    if steering is None or anchor is None or trials[-1].outcome is Outcome.FAIL:
        return trials
    wanted = [(Candidate(), Outcome.FAIL)] + [(study.deny(m), outcome) for m, outcome in anchor.demands()]
    # New values undo what a case with simpler ones is for.
    agreeing = [
        t.case for t in trials if t.default.outcome is not Outcome.UNRESOLVED and not t.case.values
    ]
    if steering.magnifying:
        agreeing = [case for case in agreeing if len(study.describe(case).calls) <= MAGNIFIED_CALLS]
    steered = study.steer(agreeing, wanted, steering.magnifying)
    others = [case for case in steered if case is not None]
    return [*trials, *(_as_they_are(study, anchor, others) if others else [])]


def _as_they_are(study: Study, anchor: Anchor | None, cases: Sequence[Case]) -> list[Trial]:
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


def _steps(default: ProbeResult) -> bool:
    """Whether the outputs show a step: a few elements diverge and nearly all are equal to the bit."""
    paths = {s.path for s in default.signatures if s.kind is DivergenceKind.VALUE}
    outputs = [o for o in default.measurement.outputs if o.path in paths]
    return any(0 < o.n_diff * FEW <= o.numel for o in outputs)


def _held(study: Study, anchor: Anchor, case: Case) -> Outcome:
    """FAIL where the case meets every demand of the anchor."""
    demands = anchor.demands()
    results = study.probe_all([(study.deny(members), case) for members, _ in demands])
    holds = all(r.outcome is wanted for r, (_, wanted) in zip(results, demands, strict=True))
    return Outcome.FAIL if holds else Outcome.UNRESOLVED
