"""The two tests of the search, as questions to a study: decisions denied, and decisions enabled."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.case import Case
from bisector.core.model import Candidate, Outcome
from bisector.core.probe import BudgetSpent
from bisector.core.search.ahead import Members

from .study import Study

# Questions that differ in few decisions: a worker may hold one compile that answers many of them.
SERIES = {"series": True}


class Allowance:
    """A number of questions, after which a search ends with what it has; None for any number."""

    def __init__(self, questions: int | None = None) -> None:
        self.questions = questions
        self.asked = 0

    def spend(self) -> None:
        if self.questions is not None and self.asked >= self.questions:
            raise BudgetSpent(f"the search for decisions ended after {self.questions} questions")
        self.asked += 1


class _Asking:
    """One question at a time, or as many ahead as the lab has lanes; the lab's journal is the memory."""

    def __init__(self, study: Study, case: Case, allowance: Allowance | None = None) -> None:
        self.study = study
        self.case = case
        self.allowance = allowance or Allowance()
        self.lanes = study.lab.jobs

    def candidate(self, members: Members) -> Candidate:
        raise NotImplementedError

    def __call__(self, members: Members) -> Outcome:
        self.allowance.spend()
        [result] = self.study.probe_all([(self.candidate(members), self.case)], SERIES)
        return result.outcome

    def ahead(self, sets: Sequence[Members]) -> None:
        self.study.probe_all([(self.candidate(members), self.case) for members in sets], SERIES)


class Denied(_Asking):
    """PASS where denying the members over the default compile repairs."""

    def candidate(self, members: Members) -> Candidate:
        return self.study.deny(members)


class Enabled(_Asking):
    """FAIL where the members alone, over the plain baseline, make the case diverge."""

    def __init__(self, study: Study, case: Case, allowance: Allowance, config: Sequence[str]) -> None:
        super().__init__(study, case, allowance)
        self.config = config

    def candidate(self, members: Members) -> Candidate:
        return self.study.plain(members, self.config)
