"""Introduced against exposed: whether the decision was there before the change, and did no harm."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bisector.core.ladder import Bracket
from bisector.core.model import Outcome
from bisector.core.probe import BudgetSpent

from .asking import FIXED_OPTION, Asking
from .question import INTRODUCED


class Came(enum.Enum):
    """What the change did."""

    INTRODUCED = "introduced"  # the decision that the repro's fix undoes
    EXPOSED = "exposed"  # it was there, and something else made it visible


@dataclass(frozen=True)
class Compared:
    """came: None where it is not known, for the reason."""

    came: Came | None
    reason: str


def compared(asking: Asking, bracket: Bracket) -> Compared | None:
    """The last build without the divergence, run with the repro's fix: where that moves bits of the compiled
    result, the decision was taken there too. None where the question or the repro has no fix to try."""
    if asking.question.looked_for != INTRODUCED or FIXED_OPTION not in asking.repro.read_text():
        return None
    plain = asking.told(bracket.before)
    try:
        fixed = asking.fixed(bracket.before)
    except BudgetSpent as spent:
        return Compared(None, spent.reason)
    before, after = (told.line.get("compiled") for told in (plain, fixed))
    if fixed.outcome is not Outcome.PASS or before is None or after is None:
        why = fixed.reason or "it gave no results to compare"
        return Compared(None, f"with the repro's fix {bracket.before} cannot tell: {why}")
    if before != after:
        return Compared(Came.EXPOSED, f"the fix moves bits of what {bracket.before} compiles, too")
    return Compared(Came.INTRODUCED, f"the fix changes nothing that {bracket.before} compiles")
