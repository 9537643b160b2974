"""The minimal case: the pure reducer, asking through the study; and its nearest neighbour that agrees, with
what is different in the generated code.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bisector.core.budget import BudgetSpent
from bisector.core.case import Case
from bisector.core.decision import DecisionId, listed
from bisector.core.fix import Fix
from bisector.core.judge import worst
from bisector.core.model import Candidate, DivergenceKind, ProbeResult
from bisector.core.notes import Reported
from bisector.core.outcome import Outcome
from bisector.core.protocol import RunProbe
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.reduce import neighbours, reduce
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import NotRepairedAlike
from bisector.core.smaller import AlsoSeen, Anchor, Neighbour, Reduced
from bisector.core.verdict import VerdictClass

from .rounds import in_rounds
from .search_order import finest
from .study import Study

MOST_ANCHORS = 3  # repairs; each one costs a probe for every case that the reducer takes
# One diverging element in this many is the work of a step; rounding alone shows in most elements.
FEW = 100
# Inputs this many times as large: a difference in the last bit of one then stands over an absolute tolerance
# of a few such bits, and so does what a cancellation leaves of it.
MAGNIFYING = (2.0**8, 2.0**16)
MAGNIFIED_CALLS = 8  # of more than that what amplifies it is mostly there
MOST_OF_EACH = 3  # repairs and flags; each may take a probe
CONTEXT = 2  # lines around one that differs


def anchored_by(repairs: Sequence[MinimalSet[DecisionId]]) -> Anchor | None:
    """An anchor of the finest of these repairs, those that are confirmed; None where none is."""
    confirmed = [frozenset(r.members) for r in finest(repairs) if r.confirmed]
    return Anchor(tuple(confirmed[:MOST_ANCHORS])) if confirmed else None


@in_rounds
def reduce_case(
    study: Study,
    start: Case,
    default: ProbeResult,
    anchor: Anchor | None,
    run: Callable[[Problem], None] = reduce,
    verdict: VerdictClass | None = None,
) -> Reduced:
    """Reduce a case, whose default compile is given, while it diverges as before and the anchor repairs it.

    run: the passes; all of them, or one alone. verdict: of the whole; rounding that is amplified hardly shows
    without what amplifies it, and so is looked for on other input values too.
    """
    asking = _StillInteresting(study, anchor, _steering(default, verdict) if anchor is not None else None)
    decisive = anchor.nodes() if anchor is not None else frozenset()
    problem = Problem(
        start,
        default,
        asking,
        study.describe,
        worst=lambda output: worst(output, study.small),
        anchored=anchor is not None,
        decisive=decisive,
    )
    stopped = None
    try:
        if anchor is not None:
            problem.also = asking.held(anchor, start)[1]
        run(problem)
    except BudgetSpent as spent:
        stopped = spent.reason
    return Reduced(problem.case, problem.default, problem.uncut, list(asking.also_seen.values()), stopped)


@dataclass(frozen=True)
class _Steering:
    """How other input values are looked for. magnifying: factors to try where no step is found."""

    magnifying: tuple[float, ...] = ()


def _steering(default: ProbeResult, verdict: VerdictClass | None) -> _Steering | None:
    if _steps(default):
        return _Steering()
    return _Steering(MAGNIFYING) if verdict is VerdictClass.AMPLIFIED_ROUNDING else None


def _steps(default: ProbeResult) -> bool:
    """Whether the outputs show a step: a few elements diverge and nearly all are equal to the bit."""
    paths = {s.path for s in default.signatures if s.kind is DivergenceKind.VALUE}
    outputs = [o for o in default.measurement.outputs if o.path in paths]
    return any(0 < o.n_diff * FEW <= o.numel for o in outputs)


@dataclass
class _StillInteresting:
    """Is it still interesting? FAIL where it is: the case diverges as before and meets every demand.

    What only diverges costs one probe, what counts a few. also_seen: by what it is.
    """

    study: Study
    anchor: Anchor | None
    steering: _Steering | None
    also_seen: dict[str, AlsoSeen] = field(default_factory=dict)

    def __call__(self, case: Case) -> Trial:
        trial = self._as_it_is(case)
        if self.steering is None or self.anchor is None or trial.outcome is Outcome.FAIL:
            return trial
        # New values undo what a case with plainer inputs is for.
        if trial.default.outcome is Outcome.UNRESOLVED or case.has_plainer_inputs:
            return trial
        steered = self._steered(case, self.anchor, self.steering)
        return trial if steered is None else self._as_it_is(steered)

    def _steered(self, case: Case, anchor: Anchor, steering: _Steering) -> Case | None:
        if steering.magnifying and len(self.study.describe(case).calls) > MAGNIFIED_CALLS:
            return None
        denied = [(self.study.deny(members), outcome) for members, outcome in anchor.demands()]
        return self.study.steer(case, [(Candidate(), Outcome.FAIL), *denied], steering.magnifying)

    def _as_it_is(self, case: Case) -> Trial:
        self.study.lab.ahead(self._asked_if_it_diverges(case))
        default = self.study.probe(Candidate(), case)
        outcome: Outcome = default.outcome
        also: Sequence[ProbeResult] = ()
        if outcome is Outcome.FAIL and self.anchor is not None:
            outcome, also = self.held(self.anchor, case)
        elif outcome is Outcome.UNRESOLVED and default.signatures:
            self.also_seen[default.signatures[0].kind.value] = AlsoSeen(Reported(default.reason), case)
        return Trial(case, outcome, default, also)

    def _asked_if_it_diverges(self, case: Case) -> list[RunProbe]:
        """For what the anchor demands, where a round holds it: a few kernels more take little time, and
        another round takes a compiler's start."""
        denied = [] if self.anchor is None else self._denied(self.anchor, case)
        return self.study.requests(denied) if len(denied) < self.study.width else []

    def _denied(self, anchor: Anchor, case: Case) -> list[tuple[Candidate, Case]]:
        """What is asked of a case for each demand of the anchor."""
        return [(self.study.deny(members), case) for members, _ in anchor.demands()]

    def held(self, anchor: Anchor, case: Case) -> tuple[Outcome, Sequence[ProbeResult]]:
        """FAIL where the case meets every demand of the anchor; with the results that diverge as demanded."""
        demands = anchor.demands()
        results = self.study.probe_all(self._denied(anchor, case))
        if all(r.outcome is wanted for r, (_, wanted) in zip(results, demands, strict=True)):
            return Outcome.FAIL, [r for r in results if r.outcome is Outcome.FAIL]
        repaired = [r for r, (_, wanted) in zip(results, demands, strict=True) if wanted is Outcome.PASS]
        if all(r.outcome is Outcome.FAIL for r in repaired):
            self.also_seen["unrepaired"] = AlsoSeen(NotRepairedAlike(), case)
        return Outcome.UNRESOLVED, ()


def nearest(
    study: Study, case: Case, repairs: Sequence[MinimalSet[DecisionId]], flags: Sequence[Fix]
) -> Neighbour | None:
    """Of what agrees and differs in one decision or flag, what changes the fewest lines of code; where none
    does, of what differs in one call or length. None where nothing of the kind agrees."""
    denied = [(f"disabling {listed(r.members)}", study.deny(frozenset(r.members)), case) for r in repairs]
    turned = [
        (f"with {fix.id}", Candidate.with_flags(fix.values), case) for fix in flags if fix.values is not None
    ]
    found = _agreeing(study, case, [*denied[:MOST_OF_EACH], *turned[:MOST_OF_EACH]])
    if all(neighbour.changed == 0 for neighbour in found):
        others = neighbours(case.rebased(), study.describe(case))
        found += _agreeing(study, case, [(text, Candidate(), other) for text, other in others])
    return min(found, key=lambda n: (n.changed == 0, n.changed), default=None)


def _agreeing(
    study: Study, case: Case, offered: Sequence[tuple[str, Candidate, Case]]
) -> list[Neighbour]:
    """Those of (what is different, candidate, case) that agree, with the difference of their code."""
    results = study.probe_all([(candidate, other) for _, candidate, other in offered])
    agreeing = [o for o, r in zip(offered, results, strict=True) if r.outcome is Outcome.PASS]
    if not agreeing:
        return []
    asked = [(Candidate(), case), *((candidate, other) for _, candidate, other in agreeing)]
    diverging, *texts = study.sources(asked)
    return [Neighbour(o[0], _difference(diverging, text)) for o, text in zip(agreeing, texts, strict=True)]


def _difference(diverging: str | None, agreeing: str | None) -> tuple[str, ...]:
    if diverging is None or agreeing is None:
        return ()
    pair = (diverging.splitlines(), agreeing.splitlines())
    return tuple(difflib.unified_diff(*pair, "diverges", "agrees", lineterm="", n=CONTEXT))
