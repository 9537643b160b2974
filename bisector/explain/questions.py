"""The two tests of the search, as questions to a study: decisions denied, and decisions enabled."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bisector.core.budget import BudgetSpent
from bisector.core.case import Case
from bisector.core.decision import Decision, DecisionId
from bisector.core.endings import QuestionsSpent
from bisector.core.judge import proof
from bisector.core.model import Candidate, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import Members

from .search_order import PLACES, ordered
from .study import Study


def new_decisions(study: Study, result: ProbeResult, known: Collection[str]) -> list[Decision]:
    """What a compile decided that is not known yet, without places."""
    left_out = {*PLACES, *study.hooks_off}
    return [d for d in result.measurement.decisions if d.kind not in left_out and d.id not in known]


class Allowance:
    """A number of questions, after which a search ends with what it has; None for any number."""

    def __init__(self, questions: int | None = None) -> None:
        self.questions = questions
        self.asked = 0

    def spend(self) -> None:
        if self.questions is not None and self.asked >= self.questions:
            raise BudgetSpent(QuestionsSpent(self.questions))
        self.asked += 1


class DecisionTest:
    """A set of decisions in a candidate; the lab's journal is the memory."""

    def __init__(self, study: Study, case: Case, allowance: Allowance | None = None) -> None:
        self.study = study
        self.case = case
        self.allowance = allowance or Allowance()

    def candidate(self, members: Members[DecisionId]) -> Candidate:
        raise NotImplementedError

    def __call__(self, members: Members[DecisionId]) -> Outcome:
        self.allowance.spend()
        return self.ask(members).outcome

    def ask(self, members: Members[DecisionId]) -> ProbeResult:
        """The whole result; what was asked before is answered from memory."""
        [result] = self.study.probe_all([(self.candidate(members), self.case)])
        return result


class Denied(DecisionTest):
    """PASS where denying the members over the default compile repairs; UNRESOLVED where it seems to, and not
    one of them came up.

    Of many that are denied at once some always vanish with others. That such a set repairs narrows the search
    all the same, since what is left of it repairs; the sets that are named are confirmed with every member.

    appeared(members): the decisions that came up only because these are denied.
    """

    def __init__(
        self, study: Study, case: Case, allowance: Allowance | None = None, known: Sequence[Decision] = ()
    ) -> None:
        super().__init__(study, case, allowance)
        self.grown: dict[DecisionId, Decision] = {}
        self._known = {d.id for d in known}

    def __call__(self, members: Members[DecisionId]) -> Outcome:
        self.allowance.spend()
        result = self.ask(members)
        came_up = members - frozenset(result.measurement.vanished)
        return result.outcome if came_up else proof(result, members).outcome

    def appeared(self, members: Members[DecisionId]) -> list[DecisionId]:
        fresh = new_decisions(self.study, self.ask(members), self._known)
        self.grown.update((d.id, d) for d in fresh)
        return ordered(d.id for d in fresh)

    def candidate(self, members: Members[DecisionId]) -> Candidate:
        return self.study.deny(members)


class Enabled(DecisionTest):
    """FAIL where the members alone, over the plain baseline, make the case diverge."""

    def __init__(
        self, study: Study, case: Case, allowance: Allowance, also_denied: Sequence[DecisionId]
    ) -> None:
        super().__init__(study, case, allowance)
        self.also_denied = also_denied

    def candidate(self, members: Members[DecisionId]) -> Candidate:
        return self.study.plain(members, self.also_denied)


class Formulas(DecisionTest):
    """PASS where the plain baseline agrees once the members, which are lowerings, are denied."""

    def candidate(self, members: Members[DecisionId]) -> Candidate:
        return self.study.plain(frozenset(), sorted(members))
