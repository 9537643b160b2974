"""What holds a smaller case to the same bug is asked where it tells something; of the smallest, all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bisector.core import protocol as asked
from bisector.core.case import WHOLE
from bisector.core.decision import DecisionId
from bisector.core.endings import QuestionsSpent
from bisector.core.model import Candidate, DivergenceKind, Signature
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Anchor, Reduced
from bisector.explain.reduction import anchored_by, reduce_case

from .fake_lab import FakeLab
from .model import Decisions, Model

FMA, INLINE = DecisionId("fma:add@c5"), DecisionId("inline:aten.mul@c6")
BOTH = Anchor((frozenset({FMA}), frozenset({INLINE})))
DIVERGES = Signature("output[0]", DivergenceKind.VALUE)
Truth = Callable[[Decisions, frozenset[str]], bool]


def lab_of(model: Model) -> FakeLab:
    answers = (asked.RunProbe, asked.DescribeGraph, asked.SimplifyInputs)
    return FakeLab(dict.fromkeys(answers, model.answer))


def reduced(truth: Truth, width: int = 6) -> tuple[Model, FakeLab, Reduced]:
    model = Model(12, [FMA, INLINE], truth)
    lab = lab_of(model)
    study = replace(lab.study(DIVERGES), width=width)
    return model, lab, reduce_case(study, WHOLE, study.probe(Candidate()), BOTH)


def needs_both(allowed: Decisions, kept: frozenset[str]) -> bool:
    return {FMA, INLINE} <= allowed and {"c5", "c6", "c7"} <= kept


def denials(lab: FakeLab) -> list[asked.RunProbe]:
    return [r for r in lab.asked if isinstance(r, asked.RunProbe) and r.candidate.members]


def test_a_case_that_agrees_is_asked_for_no_demand() -> None:
    model, lab, found = reduced(needs_both)
    assert model.kept(found.case) == ["c5", "c6", "c7"]
    for request in denials(lab):
        default = model.probe(request.about, Candidate())
        assert default.outputs[0].n_diff > 0


def test_once_one_case_met_every_demand_one_is_asked_and_of_the_smallest_all() -> None:
    _, lab, found = reduced(needs_both)
    by_case: dict[object, set[frozenset[DecisionId]]] = {}
    for request in denials(lab):
        by_case.setdefault(request.about.case, set()).add(request.candidate.members)
    assert len(by_case[found.case]) == 2
    assert sum(len(members) == 1 for members in by_case.values()) > 1


def test_where_the_smallest_case_does_not_meet_all_every_case_is_asked_for_all() -> None:
    def truth(allowed: Decisions, kept: frozenset[str]) -> bool:
        """On few calls one of the two suffices, which is another bug."""
        few = len(kept) < 4 and FMA in allowed
        return {"c5", "c6"} <= kept and (few or {FMA, INLINE} <= allowed)

    model, lab, found = reduced(truth)
    assert len(model.kept(found.case)) == 4
    study = lab.study(DIVERGES)
    for members, wanted in BOTH.demands():
        assert study.denied(members, found.case).outcome is wanted is Outcome.PASS


def test_a_budget_that_ends_it_leaves_the_last_case_that_met_every_demand() -> None:
    lab = lab_of(Model(12, [FMA, INLINE], needs_both))
    for most in range(6, 60, 3):
        lab.asked.clear()

        def exhausted(most: int = most) -> QuestionsSpent | None:
            return QuestionsSpent(most) if len(lab.asked) >= most else None

        study = replace(lab.study(DIVERGES), width=6, exhausted=exhausted)
        found = reduce_case(study, WHOLE, study.probe(Candidate()), BOTH)
        after = lab.study(DIVERGES)
        if found.stopped_because is not None:
            results = [after.denied(members, found.case) for members, _ in BOTH.demands()]
            assert [result.outcome for result in results] == [wanted for _, wanted in BOTH.demands()]


def test_the_width_of_a_round_changes_nothing() -> None:
    assert reduced(needs_both, width=1)[2].case == reduced(needs_both, width=12)[2].case


A1, A2, B1, B2 = map(DecisionId, ("fma:add@c3", "fma:add@c2", "inline:aten.mul@c5", "inline:aten.mul@c6"))
REPAIRS = [
    MinimalSet((a, b), Outcome.PASS, (Outcome.FAIL, Outcome.FAIL)) for a in (A1, A2) for b in (B1, B2)
]


def two_bugs(allowed: Decisions, kept: frozenset[str]) -> bool:
    """Each of two decisions; and one that shows where c2 is gone, which the repairs without A1 leave."""
    first = {"c2", "c3"} <= kept and {A1, A2} <= allowed
    another = "c3" in kept and "c2" not in kept and A1 in allowed
    return first or another or ({"c5", "c6"} <= kept and {B1, B2} <= allowed)


def test_a_case_does_not_slip_to_another_bug_that_one_repair_alone_would_leave() -> None:
    anchor = anchored_by(REPAIRS)
    assert anchor is not None and len(anchor.repairs) > 1
    model = Model(10, [A1, A2, B1, B2], two_bugs)
    study = replace(lab_of(model).study(DIVERGES), width=6)
    found = reduce_case(study, WHOLE, study.probe(Candidate()), anchor)
    assert len(model.kept(found.case)) < 10
    for repair in anchor.repairs:
        assert study.denied(repair, found.case).outcome is Outcome.PASS
