"""One divergence explained: the stages that a call and a whole script have in common.

Each stage is a function of other modules that returns a frozen result. An `Explanation` keeps these results;
a search that begins again on the whole begins with none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bisector.core import progress as steps
from bisector.core.answer import Answer, Preflight
from bisector.core.case import WHOLE, Case
from bisector.core.confirmed import Confirmed, Decided
from bisector.core.decision import DecisionId
from bisector.core.endings import Ending
from bisector.core.fix import PASSES, Conclusion
from bisector.core.fix_source import PER_GRAPH
from bisector.core.flags import Flag, FlagWalk
from bisector.core.followed import Followed
from bisector.core.mechanism import FoundFamily
from bisector.core.notes import Note
from bisector.core.protocol import HooksTested
from bisector.core.reduction.reduce import Pass
from bisector.core.reproduced import Reproduced, WrittenTest
from bisector.core.reuse import Reuse
from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Anchor, Neighbour, Reduced, Scope, Start
from bisector.core.steps import FoundSteps
from bisector.core.trace import Trace
from bisector.core.verdict import Verdict

from .confirmation import Confirming, confirm, summary
from .culprit_search import decide
from .divergence import Divergence
from .fixes import flag_fixes, flags_to_confirm
from .flags.walk import on_whole, walk
from .preflight import test_hooks
from .reduction import reduce_case
from .repro import reproduce, start_early, write_test
from .run import Session
from .search_order import Suspects, suspects
from .starting_case import REFUTED_ON_WHOLE
from .study import Study


class Explanation:
    """The stages of one run, and what they have found so far: None where a stage did not come to its end.

    so_far: what was known with the verdict. on_progress: called with the answer where it has become better,
    to begin what can be done with it meanwhile. start: where the search begins. group: a repair of the whole
    by many decisions, where no flag repairs; of_whole: one by a few that was found there.
    """

    def __init__(
        self,
        session: Session,
        divergence: Divergence,
        so_far: Answer,
        on_progress: Callable[[Answer], None] = lambda answer: None,
    ) -> None:
        self.session = session
        self.divergence = divergence
        self.so_far = so_far
        self.on_progress = on_progress
        self.study: Study = divergence.study
        self.second = divergence.second_worker(session)
        self.preflight: Preflight | None = None
        self.followed: Followed | None = None
        self.whole = Start(WHOLE, divergence.default)
        self.stopped_because: Ending | None = None
        self.of_whole: MinimalSet[DecisionId] | None = None
        self._begin_with(self.whole)

    def _begin_with(self, start: Start) -> None:
        """Nothing of an earlier start is kept."""
        self.start = start
        self.walk = FlagWalk()
        self.anchor_notes: tuple[Note, ...] = ()
        self.group = self.of_whole
        self.reductions: list[Reduced] = list(start.reductions)
        self.decided: Decided | None = None
        self.confirmed: Confirmed | None = None
        self.reuses: tuple[Reuse, ...] = ()
        self.steps: FoundSteps | None = None
        self.graded: Graded | None = None
        self.family: FoundFamily | None = None
        self.conclusion: Conclusion | None = None
        self.reproduced = Reproduced()
        self.test = WrittenTest()
        self.neighbour: Neighbour | None = None

    def ended_by(self, reason: Ending) -> None:
        """The budget ended the run."""
        self.stopped_because = reason

    def _stopped(self, reason: Ending | None) -> None:
        """A stage ended early; the first reason counts."""
        self.stopped_because = self.stopped_because or reason

    def explain(self) -> None:
        """All stages in their order. Raises BudgetSpent where the budget ends a stage that leaves nothing
        behind."""
        raise NotImplementedError

    def walk_flags_alone(self) -> None:
        """The walk over the flags, for a run that asks for nothing more. What repairs is tried in the second
        worker too."""
        self.second.start_early()
        try:
            self.study.warm(WHOLE)
            self._walk_flags()
            if by_flags := flags_to_confirm(self.walk):
                with self.session.clock.stage("fixes"):
                    self.confirmed = confirm(self._confirming(), Decided(WHOLE), None, by_flags)
        finally:
            self.second.close()

    def _walk_flags(self) -> None:
        """The catalogue on the case to begin with."""
        raise NotImplementedError

    def _confirming(self) -> Confirming:
        second = self.divergence.confirming(self.study, self.second)
        return Confirming(self.study, second, self.divergence.call, self.divergence.evidence.default)

    def _tested_hooks(self) -> HooksTested:
        hooks = test_hooks(self.study)
        self.study = replace(self.study, hooks_off=hooks.off)
        return hooks

    def _walk(self, flags: list[Flag]) -> None:
        """Try the flags on the case to begin with; what repairs a part is tried on the whole."""
        with self.session.clock.stage("fixes"):
            settings = self.study.settings([*(flag.name for flag in flags), PER_GRAPH, PASSES])
            start = self.start
            found = walk(self.study, flags, settings, start.case, start.default.measurement)
            if start.case != WHOLE and found.repairs_something:
                found = on_whole(self.study, found)
                if not found.repairs_something and start.scope is not Scope.REGION:
                    self.start = replace(self.whole, notes=REFUTED_ON_WHOLE[start.scope])
                    found = walk(self.study, flags, settings, WHOLE, self.whole.default.measurement)
        self.walk = found
        self.study = replace(self.study, conservative=found.conservative)
        self._say("flags", steps.FlagsTried(found.repairing))
        self.on_progress(self.answer())

    def _decide(self, start: Start) -> Decided:
        with self.session.clock.stage("causes"):
            found = decide(
                self.study, start.case, start.default, self.walk.necessary, self._suspects()
            )
        self.decided = found
        self._stopped(found.sets.stopped_because)
        causes, repairs = len(found.sets.causes), len(found.sets.repairs)
        self._say("causes", steps.SetsFound(causes, repairs))
        return found

    def _suspects(self) -> Suspects:
        return suspects(self.walk.suspected, self.followed, self.study.signatures)

    def _confirm(self, decided: Decided) -> Confirmed:
        """What a second worker says of what was decided."""
        try:
            found = self._asked_second(decided)
        finally:
            self.second.close()
        self.confirmed = found
        self._say("confirmed", summary(found, flags_to_confirm(self.walk)))
        self.on_progress(self.answer())
        return found

    def _asked_second(self, decided: Decided) -> Confirmed:
        return self._ask_second(decided, self.group)

    def _ask_second(
        self, decided: Decided, group: MinimalSet[DecisionId] | None, family: Sequence[DecisionId] = ()
    ) -> Confirmed:
        """group, family: as of `confirm`."""
        by_flags = flags_to_confirm(self.walk)
        lower = tuple(self.preflight.agreeing) if self.preflight is not None else ()
        with self.session.clock.stage("causes"):
            return confirm(self._confirming(), decided, group, by_flags, family, lower)

    def _reduce(self, start: Start, anchor: Anchor | None, passes: Pass) -> Reduced:
        with self.session.clock.stage("minimize"):
            verdict = self._verdict().kind
            found = reduce_case(
                self.study, start.case, start.default, anchor, passes, verdict, self._trace
            )
        self.reductions.append(found)
        self._stopped(found.stopped_because)
        return found

    def _reproduce(self, case: Case) -> None:
        """Write the repro; it runs while the conclusions are drawn, with the fixes that are known before."""
        session, known = self.session, self.answer()
        self.on_progress(known)
        writer = self.divergence.writer(session, self.study)
        members = self.decided.members if self.decided is not None else []
        early = start_early(session, writer, case, known, members)
        try:
            with session.clock.stage("fixes"):
                self.conclusion = self._conclude(case)
            self._stopped(self.conclusion.stopped_because)
            self.reproduced = reproduce(session, writer, case, self.answer(), early)
        finally:
            if early is not None:
                early.stop()
        if (shown := self.reproduced.shown) is not None and session.options.as_test:
            self.test = write_test(session, shown)

    def _conclude(self, case: Case) -> Conclusion:
        raise NotImplementedError

    def _say(self, stage: str, step: steps.Step) -> None:
        self.session.progress(stage, step)

    @property
    def _trace(self) -> Trace | None:
        """Of the whole."""
        return self.followed.trace if self.followed is not None else None

    def _verdict(self) -> Verdict:
        """With what is known of each node, where all nodes were followed."""
        return self.divergence.reclassified(self._trace)

    def answer(self) -> Answer:
        """All that is known by now, stage by stage."""
        known = self.so_far.with_verdict(self._verdict())
        if self.preflight is not None:
            known = known.with_preflight(self.preflight)
        if self.followed is not None:
            known = known.with_followed(self.followed)
        known = known.noted(*self.start.notes, *self.anchor_notes).with_flags(self.walk)
        if self.decided is not None:
            known = known.with_decided(self.decided)
        if self.confirmed is not None:
            known = known.with_confirmed(self.confirmed).with_why(self.reuses, self.steps)
        if self.graded is not None:
            known = known.with_shares(self.graded)
        if self.family is not None:
            known = known.with_family(self.family)
        if self.conclusion is None:
            known = known.with_fixes(flag_fixes(self.walk, self.confirmed))
        else:
            known = known.with_conclusion(self.conclusion)
        known = known.with_neighbour(self.neighbour).with_repro(self.reproduced).with_test(self.test)
        return known.stopped(self.stopped_because)
