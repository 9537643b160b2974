"""A stage in rounds: whatever their width, it finds what it finds when it asks one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE
from bisector.core.decision import DecisionId
from bisector.core.endings import QuestionsSpent
from bisector.core.graphinfo import GraphInfo
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.protocol import DescribeGraph, RunProbe
from bisector.core.search.minimal import Inverted, MinimalSet, minimal_set
from bisector.core.search.sets import SetsFound, all_sets
from bisector.explain.questions import Allowance, Denied, Enabled
from bisector.explain.rounds import in_rounds
from bisector.explain.study import Study

from .fake_lab import DIVERGES, FakeLab, bytes_that_differ

NAMES = tuple(DecisionId.of("fma", "add", f"n{i}") for i in range(512))
Repairs = Callable[[frozenset[str]], bool]


def lab(repairs: Repairs) -> FakeLab:
    """Denied over the default compile these sets repair; enabled over the plain one, what leaves none out."""

    def probe(request: RunProbe) -> Any:
        members = request.candidate.members
        if request.candidate.base.value == "plain":
            return bytes_that_differ(0 if repairs(frozenset(NAMES) - members) else 1)
        return bytes_that_differ(0 if repairs(members) else 1)

    return FakeLab({RunProbe: probe, DescribeGraph: lambda request: GraphInfo((), ())})


def study(fake: FakeLab, width: int) -> Study:
    return replace(fake.study(DIVERGES), width=width)


@in_rounds
def one_repair(study: Study, names: tuple[DecisionId, ...]) -> MinimalSet[DecisionId]:
    return minimal_set(names, Inverted(Denied(study, WHOLE)))


@in_rounds
def both_views(study: Study, names: tuple[DecisionId, ...]) -> SetsFound[DecisionId]:
    return all_sets(names, Enabled(study, WHOLE, Allowance(), ()), Denied(study, WHOLE), 8)


def all_of(*needed: str) -> Repairs:
    return lambda members: members >= set(needed)


@pytest.mark.parametrize(("culprits", "rounds"), [(1, 4), (2, 6), (3, 8)])
def test_few_culprits_of_512_take_few_rounds_of_32(culprits: int, rounds: int) -> None:
    needed = NAMES[37::171][:culprits]
    fake = lab(all_of(*needed))
    fake.jobs = 32
    found = one_repair(study(fake, 32), NAMES)
    assert set(found.members) == set(needed)
    assert len(fake.rounds) <= rounds and max(fake.rounds) <= 32


@settings(max_examples=60, deadline=None)
@given(st.lists(st.frozensets(st.sampled_from(NAMES[:12]), min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_width_changes_nothing_but_the_number_of_rounds(sets: list[frozenset[str]]) -> None:
    def repairs(members: frozenset[str]) -> bool:
        return all(one & members for one in sets)

    alone = lab(repairs)
    found = both_views(study(alone, 1), NAMES[:12])
    for width in (2, 5, 12):
        fake = lab(repairs)
        assert both_views(study(fake, width), NAMES[:12]) == found
        assert set(map(alone.key, alone.asked)) <= set(map(fake.key, fake.asked))
        assert len(fake.asked) == len(set(map(fake.key, fake.asked)))
        assert len(fake.rounds) <= len(alone.rounds)


def test_what_was_guessed_is_not_counted_among_the_outcomes() -> None:
    counts = []
    for width in (1, 12):
        asking = replace(study(lab(all_of(*NAMES[3:5])), width), counts=Counter())
        one_repair(asking, NAMES[:40])
        counts.append(asking.counts)
    assert counts[0] == counts[1] and counts[0][Outcome.UNRESOLVED.value] == 0


def test_guesses_in_vain_make_the_rounds_narrower() -> None:
    @in_rounds
    def turning(study: Study) -> int:
        """What it asks next no guess foresees."""
        outcomes: list[Outcome] = []
        while len(outcomes) < 30:
            outcomes.append(study.denied(frozenset({DecisionId(str(outcomes))})).outcome)
        return len(outcomes)

    fake = lab(all_of("nothing"))
    assert turning(study(fake, 12)) == 30
    assert fake.rounds[0] == 12 and max(fake.rounds[1:]) <= 2


def test_a_question_without_which_nothing_goes_on_ends_a_round() -> None:
    @in_rounds
    def described(study: Study) -> Outcome:
        study.denied(frozenset(NAMES[:1]))
        study.describe(WHOLE)
        return study.denied(frozenset(NAMES[:2])).outcome

    fake = lab(all_of(NAMES[0]))
    assert described(study(fake, 12)) is Outcome.PASS
    assert fake.rounds == [2, 1]


def test_a_round_ends_where_the_stage_says_that_an_answer_decides() -> None:
    @in_rounds
    def deciding(study: Study) -> list[Outcome]:
        first = study.denied(frozenset(NAMES[:1])).outcome
        study.lab.settle()
        return [first, *(study.denied(frozenset({name})).outcome for name in NAMES[1:7])]

    fake = lab(all_of(NAMES[0]))
    assert deciding(study(fake, 12)) == [Outcome.PASS] + [Outcome.FAIL] * 6
    assert fake.rounds == [1, 6], "a short round says nothing of how wide the next may be"


def test_what_is_asked_ahead_is_of_the_round_of_the_next_question() -> None:
    @in_rounds
    def with_the_next(study: Study) -> list[Outcome]:
        denied = [study.deny(frozenset(NAMES[:n])) for n in (2, 1)]
        study.lab.ahead(study.requests([(denied[0], WHOLE)]))
        return [study.probe(Candidate()).outcome, *(study.probe(one).outcome for one in denied)]

    fake = lab(all_of(*NAMES[:2]))
    assert with_the_next(study(fake, 2)) == [Outcome.FAIL, Outcome.PASS, Outcome.FAIL]
    assert fake.rounds == [2, 1]


def test_a_stage_hears_of_a_spent_budget_where_it_would_ask_next() -> None:
    fake = lab(all_of("nothing"))

    @in_rounds
    def as_far_as_it_goes(study: Study) -> int:
        answered = 0
        try:
            for name in NAMES[:40]:
                study.denied(frozenset({name}))
                answered += 1
        except BudgetSpent:
            return answered
        return answered

    spent = replace(study(fake, 12), exhausted=lambda: QuestionsSpent(10) if len(fake.asked) >= 10 else None)
    assert as_far_as_it_goes(spent) == len(fake.asked) >= 10


def test_a_stage_within_another_asks_in_the_rounds_of_that_one() -> None:
    @in_rounds
    def outer(study: Study) -> list[MinimalSet]:
        return [one_repair(study, NAMES[:8]), one_repair(study, NAMES[8:16])]

    fake = lab(lambda members: NAMES[2] in members or NAMES[11] in members)
    found = outer(study(fake, 12))
    assert [one.members for one in found] == [(NAMES[2],), (NAMES[11],)]
    inner = lab(lambda members: NAMES[2] in members or NAMES[11] in members)
    for names in (NAMES[:8], NAMES[8:16]):
        one_repair(study(inner, 12), names)
    assert len(fake.rounds) <= len(inner.rounds)


def test_a_candidate_beside_is_asked_once_for_a_whole_stage() -> None:
    @in_rounds
    def twice(study: Study) -> tuple[Outcome, Outcome]:
        return study.probe(Candidate()).outcome, study.probe(Candidate()).outcome

    fake = lab(all_of("nothing"))
    assert twice(study(fake, 4)) == (Outcome.FAIL, Outcome.FAIL)
    assert len(fake.asked) == 1
