"""What several trials of one candidate say together, and what ends a search before its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from bisector.core.model import Outcome, ProbeResult


class BudgetSpent(Exception):
    """No further probe may be made. A search that can stops with what it has; reason says which budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def together(trials: Sequence[ProbeResult]) -> ProbeResult:
    """The first of trials that agree; UNRESOLVED, with how often each outcome came, where they do not."""
    counts = Counter(t.outcome for t in trials)
    if len(counts) == 1:
        return trials[0]
    told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    reason = f"{len(trials)} trials disagree: {told}"
    return replace(trials[0], outcome=Outcome.UNRESOLVED, reason=reason, signatures=())
