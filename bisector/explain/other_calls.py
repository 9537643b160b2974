"""The other calls that diverge: whether what repairs the one that is explained repairs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bisector.core.answer import Answer, OtherCalls
from bisector.core.budget import BudgetSpent
from bisector.core.clusters import pattern
from bisector.core.decision import DecisionId
from bisector.core.notes import AlsoDiverges, OtherCallDiverges, Relation
from bisector.core.outcome import Outcome

from .divergence import Divergence, Other
from .run import Session
from .study import Study

MOST_ASKED = 3  # of the other calls, in the order of how bad they are


def other_calls(session: Session, study: Study, divergence: Divergence, answer: Answer) -> OtherCalls:
    """Each other call that diverges. answer: of the one that was explained."""
    repairs = [repair.found.members for repair in answer.repairs if repair.confirmed]
    found = []
    for position, other in enumerate(divergence.others):
        asked = position < MOST_ASKED
        cause = _relation(session, study, other, repairs) if asked else Relation.UNKNOWN
        found.append(AlsoDiverges(other.call.index + 1, other.call.entry, other.result.reason, cause))
    return OtherCalls(tuple(found), tuple(OtherCallDiverges(other, session.options.every) for other in found))


def _relation(
    session: Session, study: Study, other: Other, repairs: Sequence[Sequence[DecisionId]]
) -> Relation:
    """SAME where decisions like those of a repair repair it there too."""
    if not repairs:
        return Relation.UNKNOWN
    there = replace(session.study(other.call), hooks_off=study.hooks_off)
    like = {pattern(member) for member in repairs[0]}
    same_pattern = frozenset(d.id for d in other.result.measurement.decisions if pattern(d.id) in like)
    if not same_pattern:
        return Relation.ANOTHER
    try:
        outcome = there.denied(same_pattern).outcome
    except BudgetSpent:
        return Relation.UNKNOWN
    return {Outcome.PASS: Relation.SAME, Outcome.FAIL: Relation.ANOTHER}.get(outcome, Relation.UNKNOWN)
