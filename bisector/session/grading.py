"""How much of the divergence each decision carries, where no single one repairs it."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.case import Case
from bisector.core.judge import removed_fraction
from bisector.core.model import Outcome, ProbeResult
from bisector.core.search.ahead import Members
from bisector.core.search.graded import Graded, graded
from bisector.core.search.minimal import MinimalSet

from .grouping import SEPARATED
from .study import Study

MOST_GRADED = 16  # decisions that are denied one by one: a probe each
LARGEST = 8  # shares that are reported


def worth_grading(repairs: Sequence[MinimalSet], elements: Sequence[str]) -> Sequence[str]:
    """The members of the smallest repair if it has several; without a repair, all elements if they are few;
    else nothing: one decision that repairs alone carries it all."""
    if repairs:
        smallest = min(repairs, key=lambda repair: len(repair.members)).members
        return smallest if len(smallest) > 1 else ()
    return elements if len(elements) <= MOST_GRADED else ()


def grade(
    study: Study, case: Case, default: ProbeResult, elements: Sequence[str], repairs: bool
) -> Graded | None:
    """The shares of the elements on this case, or None where there is nothing to share.

    repairs: whether denying all of them is known to repair. Each is denied alone; the lab answers what the
    search has asked before from memory, as it has for the members of every pair.
    """
    if len(elements) < 2:
        return None
    results: dict[Members, ProbeResult] = {}

    def removed(members: Members) -> float | None:
        result = results.get(members) or study.denied(members, case)
        if result.outcome is Outcome.UNRESOLVED:
            return None
        return removed_fraction(default.measurement, result.measurement, study.criterion_of(case))

    alone = [frozenset({e}) for e in elements[:MOST_GRADED]]
    asked = study.probe_all([(study.deny(members), case) for members in alone])
    results.update(zip(alone, asked, strict=True))
    # A repair of few members was proved by denying all of them but one: the lab knows these answers.
    proved = repairs and len(elements) <= SEPARATED
    return graded(elements, removed, MOST_GRADED, LARGEST, 1.0 if repairs else None, others=proved)
