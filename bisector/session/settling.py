"""What a second worker says of the sets that were found, written into the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisector.core.case import WHOLE, Case
from bisector.core.judge import removed_fraction
from bisector.core.model import Decision, Outcome, ProbeResult, kind_of
from bisector.core.probe import BudgetSpent
from bisector.core.search.minimal import MinimalSet
from bisector.runner.lab import Lab

from .answer import Answer, Repair
from .confirming import Confirmation, confirm
from .deciding import Decided
from .grading import grade
from .grouping import PLACE, finest
from .run import Session
from .subject import Chosen

HeldRepair = tuple[MinimalSet, ProbeResult]


@dataclass
class Settling:
    """second: the lab of the worker that is asked."""

    session: Session
    chosen: Chosen
    answer: Answer
    second: Lab

    def settle(self, decided: Decided, group: MinimalSet | None) -> list[HeldRepair]:
        """A set that does not hold in the second worker is not called confirmed. What repairs the whole
        subject there comes back. group: a repair of the whole by many decisions, if one was found."""
        repairs, causes = finest(decided.sets.repairs), finest(decided.sets.causes)
        if not repairs:
            repairs = [MinimalSet((p,), Outcome.PASS, (Outcome.FAIL,)) for p in decided.places]
        if group is not None and group not in repairs:
            repairs.append(group)
        if not causes and len(repairs) == 1 and {kind_of(m) for m in repairs[0].members} == {PLACE}:
            self.answer.places = repairs[0].members
        said = self._ask(decided.case, repairs, causes, decided.beside)
        self.answer.decisions = self._with_sources(repairs, causes)
        if said.problem is not None:
            self.answer.notes.append(f"not confirmed in a second process: {said.problem}")
            self.answer.repairs = [Repair(r, False, 0.0) for r in repairs]
            self.answer.causes = [(c, False) for c in causes]
            return []
        self.answer.causes = [
            (c, c.confirmed and again is Outcome.FAIL) for c, again in zip(causes, said.causes, strict=True)
        ]
        self.answer.confirmation = {
            "process": "a second worker that ran the script again",
            "default": said.default.value,
            "repairs": [o.value for o in said.repairs],
        }
        return self._held(repairs, said.results if said.default is Outcome.FAIL else ())

    def also(self, repair: MinimalSet) -> list[HeldRepair]:
        """One more repair, where those that were found do not repair the whole."""
        said = self._ask(WHOLE, [repair], [], ())
        self.answer.decisions = self._with_sources([repair], [])
        before = self.answer.confirmation
        if before is not None:
            told = [*before["repairs"], *(o.value for o in said.repairs)]
            self.answer.confirmation = {**before, "repairs": told}
        return self._held([repair], said.results if said.default is Outcome.FAIL else ())

    def _ask(
        self, case: Case, repairs: Sequence[MinimalSet], causes: Sequence[MinimalSet], beside: Sequence[str]
    ) -> Confirmation:
        digest = self.chosen.call.digest
        with self.session.clock.stage("causes"):
            return confirm(self.chosen.study, self.second, digest, case, repairs, causes, beside)

    def _with_sources(
        self, repairs: Sequence[MinimalSet], causes: Sequence[MinimalSet]
    ) -> tuple[Decision, ...]:
        """The decisions, those of the answer with the place of torch's own formula."""
        named = {m for found in (*repairs, *causes) for m in found.members} | set(self.answer.places)
        written = {"lower", "decomp"}
        sources = self.chosen.study.formulas(sorted(m for m in named if kind_of(m) in written))
        return tuple(replace(d, source=sources.get(d.id, d.source)) for d in self.answer.decisions)

    def _held(self, repairs: list[MinimalSet], results: tuple[ProbeResult, ...]) -> list[HeldRepair]:
        held: list[HeldRepair] = []
        whole = self.chosen.evidence.default
        for repair, result in zip(repairs, results, strict=False):
            share = removed_fraction(whole, result.measurement, self.chosen.study.criterion)
            holds = result.outcome is Outcome.PASS
            self.answer.repairs.append(Repair(repair, holds and repair.confirmed, share))
            if holds:  # a fix need not be minimal, a repair must be
                held.append((repair, result))
        return held

    def grade(self, group: MinimalSet, case: Case, default: ProbeResult) -> None:
        """Where a group of many repairs the case and nothing smaller the whole: what its members carry."""
        if self.answer.confirmation is None or any(repair.confirmed for repair in self.answer.repairs):
            return
        try:
            with self.session.clock.stage("causes"):
                shares = grade(self.chosen.study, case, default, group.members, repairs=True)
            self.answer.graded = shares
        except BudgetSpent as spent:
            self.answer.stopped_because = self.answer.stopped_because or spent.reason
