"""A whole script explained: the stages of the search in its graphs and calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bisector.core.answer import Answer, Preflight
from bisector.core.case import WHOLE, Case
from bisector.core.confirmed import Confirmed, Decided
from bisector.core.fix import Conclusion
from bisector.core.kinds import KINDS, STEP
from bisector.core.model import Candidate
from bisector.core.notes import Note
from bisector.core.outcome import Outcome
from bisector.core.progress import FirstBadBackend
from bisector.core.reduction.problem import Problem
from bisector.core.reduction.script import (
    compiled_alone,
    fewest_calls,
    fewest_graphs,
    up_to_the_first_call,
)
from bisector.core.reduction.statements import fewest_statements
from bisector.core.search_notes import DecisionsOfTheScript, LaterCallsDiverge
from bisector.core.smaller import Anchor, Reduced, Scope, Start

from .conclusion import conclude_script
from .divergence import DivergingScript
from .explanation import Explanation
from .flags.curated import of_script
from .reduction import anchored_by, reduce_case
from .reuse import explain_reuse
from .run import Session
from .steps import find_steps


class ScriptExplanation(Explanation):
    """The stages of a script in their order."""

    def __init__(
        self, session: Session, script: DivergingScript, so_far: Answer, on_progress: Callable[[Answer], None]
    ) -> None:
        super().__init__(session, script, so_far, on_progress)
        self.script = script

    def explain(self) -> None:
        with self.session.clock.stage("localise"):
            self.preflight = Preflight(self._tested_hooks(), self.so_far.first_bad_backend, None, {})
        self._say("backends", FirstBadBackend(self.preflight.first_bad_backend))
        self._begin_with(self._in_fewest_graphs())
        self._walk_flags()
        self.second.start_early()
        decided = self._decide(self.start)
        if (to_its_end := self._refuted_by_later_calls(decided)) is not None:
            self._begin_with(to_its_end)
            self._walk_flags()
            decided = self._decide(self.start)
        confirmed = self._confirm(decided)
        with self.session.clock.stage("localise"):
            self.reuses = explain_reuse(self.study, decided.case, confirmed)
            if self.script.rung in STEP.rungs:
                self.steps = find_steps(self.study, decided.case, confirmed)
        self._reproduce(self._shortest(confirmed))

    def _walk_flags(self) -> None:
        self._walk(of_script(self.script.call.devices, self.script.rung))

    def _in_fewest_graphs(self) -> Start:
        """The fewest graphs that diverge in the same way when they alone are compiled, up to the first call
        that diverges."""
        with self.session.clock.stage("localise"):
            found = reduce_case(self.study, WHOLE, self.whole.default, None, self._less_to_run)
        return self._start_of(found)

    def _start_of(self, found: Reduced, *more: Note) -> Start:
        """A search that begins with a smaller case, or with the whole where that is it. more: notes on it."""
        notes = (DecisionsOfTheScript(), *compiled_alone(self.whole.default, found.case), *more)
        scope = Scope.WHOLE if found.case == WHOLE else Scope.GRAPHS
        return Start(found.case, found.default, scope, (found,), notes)

    def _less_to_run(self, problem: Problem) -> None:
        """Where decisions are taken about each call, those of later calls have a part in the whole."""
        if not any(kind.of_calls and self.script.rung in kind.rungs for kind in KINDS.values()):
            up_to_the_first_call(problem)
        fewest_graphs(problem)

    def _refuted_by_later_calls(self, decided: Decided) -> Start | None:
        """The case that comes to its own end, unless what repairs the one up to a call repairs it too."""
        case = self.start.case.with_end(None)
        repair = next((found for found in decided.sets.repairs if found.confirmed), None)
        if case == self.start.case or repair is None:
            return None
        with self.session.clock.stage("causes"):
            default, denied = self.study.probe_all([
                (Candidate(), case), (self.study.deny(frozenset(repair.members)), case),
            ])  # fmt: skip
        if default.outcome is not Outcome.FAIL or denied.outcome is Outcome.PASS:
            return None
        return self._start_of(Reduced(case, default, {}), LaterCallsDiverge())

    def _shortest(self, confirmed: Confirmed) -> Case:
        """For the repro alone: fewer statements, or else fewer calls. Either can mean other graphs, and so
        other decisions."""
        anchor = anchored_by([found for found, _ in confirmed.held])
        if anchor is not None:
            fewest = partial(fewest_statements, source=self.script.source)
            found = self._reduce(self.whole, Anchor(anchor.repairs[:1]), fewest).case
            if found != WHOLE:
                return found
        case = self._reduce(self.whole, None, fewest_calls).case
        return self.start.case.with_end(None) if case == WHOLE else case

    def _conclude(self, case: Case) -> Conclusion:
        assert self.confirmed is not None
        return conclude_script(self.script, case, self.walk, self.confirmed)
