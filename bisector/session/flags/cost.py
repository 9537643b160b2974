"""What a fix costs: the compiled subject timed with it and without it, in turn."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.core.protocol import Failed

from ..study import Study

TIMED_S = 1.5  # of rounds for one fix; the median of that many has settled


@dataclass(frozen=True)
class Cost:
    """slowdown: run time with the fix over that without, the median of rounds; spread: their quartiles."""

    slowdown: float
    spread: tuple[float, float]

    @property
    def ranked(self) -> float:
        """The slowdown to rank by: 1 where the quartiles have it between them, since that is noise."""
        low, high = self.spread
        return 1.0 if low <= 1.0 <= high else self.slowdown


def cost(study: Study, candidate: Candidate) -> Cost | None:
    """The cost of a candidate on the whole subject; None where it could not be timed."""
    answer = study.slowdown(candidate, WHOLE, TIMED_S)
    if isinstance(answer, Failed):
        return None
    low, middle, high = statistics.quantiles(answer.ratios, n=4, method="inclusive")
    return Cost(middle, (low, high))
