"""The minimal case: the pure reducer, asking through the study; and its nearest neighbour that agrees, with
what is different in the generated code.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE, Case
from bisector.core.decision import DecisionId, listed
from bisector.core.fix import Fix
from bisector.core.judge import worst
from bisector.core.model import Candidate, DivergenceKind, ProbeResult
from bisector.core.notes import Reported
from bisector.core.outcome import Outcome
from bisector.core.reduction.guess import values_seen
from bisector.core.reduction.problem import Problem, Simpler, Trial, ValuesSeen
from bisector.core.reduction.reduce import neighbours, reduce
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import NotRepairedAlike
from bisector.core.smaller import AlsoSeen, Anchor, Neighbour, Reduced
from bisector.core.trace import Trace
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
AT_ONCE = 4  # cases; with more of them most are in vain, and with fewer a compiler starts more often
CONTEXT = 2  # lines around one that differs

Demand = tuple[frozenset[DecisionId], Outcome]  # a set to deny, and the outcome that is wanted then


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
    trace: Trace | None = None,
) -> Reduced:
    """Reduce a case, whose default compile is given, while it diverges as before and the anchor repairs it.

    run: the passes; all of them, or one alone. verdict: of the whole; rounding that is amplified hardly shows
    without what amplifies it, and so is looked for on other input values too. trace: of the whole.
    """
    steering = _steering(default, verdict) if anchor is not None else None
    found = _reduced(_StillInteresting(study, anchor, steering), start, default, run, trace)
    if found is None:
        asking = _StillInteresting(study, anchor, steering, every_demand=True)
        found = _reduced(asking, start, default, run, trace)
    assert found is not None
    return found


def _reduced(
    asking: _StillInteresting,
    start: Case,
    default: ProbeResult,
    run: Callable[[Problem], None],
    trace: Trace | None,
) -> Reduced | None:
    """None where the smallest case does not meet every demand."""
    study, anchor = asking.study, asking.anchor
    problem = Problem(
        start,
        default,
        asking,
        study.describe,
        worst=lambda output: worst(output, study.small),
        anchored=anchor is not None,
        decisive=anchor.nodes() if anchor is not None else frozenset(),
        needed=anchor.needed() if anchor is not None else frozenset(),
        values=_values_seen(study, trace),
        at_once=asking.at_once,
        simplest=asking.simplest,
    )
    stopped = None
    try:
        if anchor is not None:
            problem.also = asking.held(anchor.demands(), start)[1]
        run(problem)
        demands = anchor.demands() if anchor is not None and problem.accepted else []
        if demands and asking.held(demands, problem.case)[0] is not Outcome.FAIL:
            return None
    except BudgetSpent as spent:
        stopped = spent.reason
        if asking.met is not None:
            problem.accept(asking.met)
    return Reduced(problem.case, problem.default, problem.uncut, list(asking.also_seen.values()), stopped)


def _values_seen(study: Study, trace: Trace | None) -> ValuesSeen | None:
    if trace is None:
        return None
    paths = [signature.path for signature in study.signatures]
    return values_seen(trace, study.describe(WHOLE), paths, study.tolerated)


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

    What only diverges costs one probe. Once a smaller case met every demand, the one that most cases failed
    is asked alone, unless every_demand; the smallest case is then asked all of them. met: the last case that
    met all. also_seen: by what it is. failed: how many cases did not meet the demand to deny a set. asked,
    diverged: how many cases were asked by their default compile, and of them diverge.
    """

    study: Study
    anchor: Anchor | None
    steering: _Steering | None
    every_demand: bool = False
    met: Trial | None = None
    also_seen: dict[str, AlsoSeen] = field(default_factory=dict)
    failed: Counter[frozenset[DecisionId]] = field(default_factory=Counter)
    asked: int = 0
    diverged: int = 0

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

    def at_once(self, cases: Sequence[Case]) -> Trial | None:
        """As of `Problem`, a few of them at a time."""
        found = (self._first(cases[at : at + AT_ONCE]) for at in range(0, len(cases), AT_ONCE))
        steered = map(self, cases if self.steering is not None else ())
        trials = (trial for trial in chain(found, steered) if trial is not None)
        return next((trial for trial in trials if trial.outcome is Outcome.FAIL), None)

    def _first(self, cases: Sequence[Case]) -> Trial | None:
        """What most cases fail is asked of all that diverge, the rest of the first that meets this; where
        none failed yet, all is asked of the first."""
        results = self._by_default(cases)
        self.study.lab.settle()
        diverging = [case for case, one in zip(cases, results, strict=True) if one.outcome is Outcome.FAIL]
        trials = map(self._as_it_is, self._likely(diverging) if self.failed else diverging)
        return next((trial for trial in trials if trial.outcome is Outcome.FAIL), None)

    def _likely(self, diverging: Sequence[Case]) -> Sequence[Case]:
        """Those that meet the demand that most cases failed."""
        if self.anchor is None:
            return diverging
        members, wanted = self._hardest(self.anchor)
        results = self.study.probe_all([(self.study.deny(members), case) for case in diverging])
        self.study.lab.settle()
        return [case for case, one in zip(diverging, results, strict=True) if one.outcome is wanted]

    def simplest(self, case: Case, simpler: Simpler) -> Case | None:
        """As of `Problem`."""
        denied = () if self.anchor is None else self.anchor.demands()
        wanted = [(self.study.deny(members), outcome) for members, outcome in denied]
        return self.study.simplest(case, [(Candidate(), Outcome.FAIL), *wanted], simpler)

    def _as_it_is(self, case: Case) -> Trial:
        (default,) = self._by_default([case])
        trial = Trial(case, default.outcome, default)
        if default.outcome is Outcome.FAIL and self.anchor is not None:
            demands = self._demands(self.anchor)
            outcome, also = self.held(demands, case)
            trial = Trial(case, outcome, default, also)
            if trial.outcome is Outcome.FAIL and len(demands) == len(self.anchor.demands()):
                self.met = trial
        elif default.outcome is Outcome.UNRESOLVED and default.signatures:
            self.also_seen[default.signatures[0].kind.value] = AlsoSeen(Reported(default.reason), case)
        return trial

    def _by_default(self, cases: Sequence[Case]) -> list[ProbeResult]:
        """The default compile of each. Where most cases diverge, what most of them fail is asked in the same
        round: another round costs as much as four probes."""
        also = []
        if self.anchor is not None and self.failed and 2 * self.diverged >= self.asked:
            also = [self.study.deny(self._hardest(self.anchor)[0])]
        each = [Candidate(), *also]
        results = self.study.probe_all([(one, case) for case in cases for one in each])[:: len(each)]
        self.asked += len(cases)
        self.diverged += sum(result.outcome is Outcome.FAIL for result in results)
        return results

    def _demands(self, anchor: Anchor) -> list[Demand]:
        """What is asked of the next case."""
        every = self.met is None or self.every_demand
        return anchor.demands() if every else [self._hardest(anchor)]

    def held(
        self, demands: Sequence[Demand], case: Case
    ) -> tuple[Outcome, Sequence[ProbeResult]]:
        """FAIL where the case meets the demands; with the results that diverge as demanded."""
        results = self.study.probe_all([(self.study.deny(members), case) for members, _ in demands])
        self.study.lab.settle()  # where they are met, all that follows is about that case
        pairs = list(zip(demands, results, strict=True))
        unmet = [members for (members, wanted), result in pairs if result.outcome is not wanted]
        if not unmet:
            return Outcome.FAIL, [r for r in results if r.outcome is Outcome.FAIL]
        self.failed.update(unmet)
        repaired = [result for (_, wanted), result in pairs if wanted is Outcome.PASS]
        if repaired and all(result.outcome is Outcome.FAIL for result in repaired):
            self.also_seen["unrepaired"] = AlsoSeen(NotRepairedAlike(), case)
        return Outcome.UNRESOLVED, ()

    def _hardest(self, anchor: Anchor) -> Demand:
        """The demand that most cases failed."""
        return max(anchor.demands(), key=lambda demand: self.failed[demand[0]])


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
