"""What the stages of one run have found so far, and the answer made of it."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.answer import Answer, Preflight
from bisector.core.case import WHOLE
from bisector.core.confirmed import Confirmed, Decided
from bisector.core.decision import DecisionId
from bisector.core.fix import Conclusion
from bisector.core.flags import FlagWalk
from bisector.core.followed import Followed
from bisector.core.mechanism import FoundFamily
from bisector.core.reproduced import Reproduced, WrittenTest
from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Neighbour, Reduced, Start
from bisector.core.trace import Trace
from bisector.core.verdict import Verdict

from .divergence import Divergence
from .fixes import flag_fixes

MECHANISM = "the minimal case shows the mechanism alone: what repairs it leaves the whole graph diverging"


class Findings:
    """The frozen results of the stages; None where a stage did not come to its end.

    so_far: what was known with the verdict. start: where the search begins. group: a repair of the whole by
    many decisions, where no flag repairs; of_whole: one by a few that was found there.
    """

    def __init__(self, divergence: Divergence, so_far: Answer) -> None:
        self.divergence = divergence
        self.so_far = so_far
        self.preflight: Preflight | None = None
        self.followed: Followed | None = None
        self.whole = Start(WHOLE, divergence.default)
        self.stopped_because: str | None = None
        self.of_whole: MinimalSet[DecisionId] | None = None
        self._begin_with(self.whole)

    def _begin_with(self, start: Start) -> None:
        """Nothing of an earlier start is kept."""
        self.start = start
        self.walk = FlagWalk()
        self.anchor_notes: tuple[str, ...] = ()
        self.group = self.of_whole
        self.reductions: list[Reduced] = list(start.reductions)
        self.decided: Decided | None = None
        self.confirmed: Confirmed | None = None
        self.graded: Graded | None = None
        self.family: FoundFamily | None = None
        self.conclusion: Conclusion | None = None
        self.reproduced = Reproduced()
        self.test = WrittenTest()
        self.neighbour: Neighbour | None = None

    def ended_by(self, reason: str) -> None:
        """The budget ended the run."""
        self.stopped_because = reason

    def _stopped(self, reason: str | None) -> None:
        """A stage ended early; the first reason counts."""
        self.stopped_because = self.stopped_because or reason

    @property
    def _trace(self) -> Trace | None:
        """Of the whole."""
        return self.followed.trace if self.followed is not None else None

    def _verdict(self) -> Verdict:
        """With what is known of each node, where all nodes were followed."""
        return self.divergence.reclassified(self._trace)

    def answer(self) -> Answer:
        """All that is known by now."""
        before = Followed(None, self.so_far.graph, self.so_far.origin, self.so_far.amplifier)
        followed, reproduced = self.followed or before, self.reproduced
        conclusion, confirmed = self.conclusion, self.confirmed or Confirmed()
        decided = self.decided or Decided(self.start.case)
        fixes = flag_fixes(self.walk, self.confirmed) if conclusion is None else conclusion.fixes
        known = replace(
            self.so_far,
            verdict=self._verdict(),
            graph=followed.graph,
            origin=followed.origin,
            amplifier=followed.amplifier,
            walk=self.walk,
            repairs=confirmed.repairs,
            causes=confirmed.causes,
            second=confirmed.second,
            places=decided.places if self.confirmed is None else confirmed.places,
            decisions=decided.decisions if self.confirmed is None else confirmed.decisions,
            graded=self.graded or decided.graded,
            family=self.family,
            fixes=reproduced.judged(fixes),
            minimal=None if conclusion is None else conclusion.minimal,
            minimal_source=reproduced.function,
            neighbour=self.neighbour,
            repro=reproduced.file,
            repro_lines=reproduced.lines,
            repro_fix=reproduced.fix,
            repro_agrees=reproduced.agrees,
            not_shown=confirmed.not_shown,
            test=self.test.file,
            notes=self._notes(),
            stopped_because=self.stopped_because,
        )
        if self.family is not None:
            # What holds on the region and not on the whole is no reason.
            held = tuple(repair for repair in known.repairs if repair.confirmed)
            known = replace(known, causes=(), repairs=held, places=())
        if self.preflight is None:
            return known
        hooks, first = self.preflight.hooks, self.preflight.first_bad_backend
        return replace(known, first_bad_backend=first, hooks_off=hooks.off, not_here=hooks.not_here)

    def _notes(self) -> tuple[str, ...]:
        """What the stages noted, in their order."""
        return (
            *self.so_far.notes,
            *((self.preflight.rung_unknown,) if self.preflight and self.preflight.rung_unknown else ()),
            *(self.followed.notes if self.followed is not None else ()),
            *self.start.notes,
            *self.anchor_notes,
            *((*self.decided.checks, *self.decided.sets.gaps) if self.decided is not None else ()),
            *(self.confirmed.notes if self.confirmed is not None else ()),
            *((MECHANISM,) if self.family is not None else ()),
            *(self.conclusion.notes if self.conclusion is not None else ()),
            *self.reproduced.notes,
            *((self.test.note,) if self.test.note is not None else ()),
        )
