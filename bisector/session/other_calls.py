"""The calls that diverge beside the one that is explained: whether what repairs that one repairs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bisector.core.clusters import pattern
from bisector.core.judge import BudgetSpent
from bisector.core.model import Outcome

from .answer import Answer
from .run import Session
from .study import Study
from .subject import Chosen, Other

MOST_ASKED = 3  # of the other calls, in the order of how bad they are
SAME, ANOTHER = "of the same cause", "of another cause"


def with_others(session: Session, study: Study, chosen: Chosen, answer: Answer) -> Answer:
    """The answer with a note on each other call that diverges."""
    repairs = [repair.found.members for repair in answer.repairs if repair.confirmed]
    notes = []
    for position, other in enumerate(chosen.others):
        text = f"call {other.call.index + 1} (`{other.call.entry}`) diverges too: {other.result.reason}"
        cause = _cause(session, study, other, repairs) if position < MOST_ASKED else None
        more = f"; `--entry {other.call.entry}` explains it" if cause is ANOTHER else ""
        notes.append(f"{text} ({cause}{more})" if cause is not None else text)
    return replace(answer, notes=(*answer.notes, *notes))


def _cause(session: Session, study: Study, other: Other, repairs: Sequence[Sequence[str]]) -> str | None:
    """SAME where decisions like those of a repair repair it there too; None where that cannot be told."""
    if not repairs:
        return None
    there = replace(session.study(other.call), hooks_off=study.hooks_off)
    like = {pattern(member) for member in repairs[0]}
    alike = frozenset(d.id for d in other.result.measurement.decisions if pattern(d.id) in like)
    if not alike:
        return ANOTHER
    try:
        outcome = there.denied(alike).outcome
    except BudgetSpent:
        return None
    return {Outcome.PASS: SAME, Outcome.FAIL: ANOTHER}.get(outcome)
