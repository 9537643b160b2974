"""The end of what a run may ask."""

from __future__ import annotations

from .endings import Ending


class BudgetSpent(Exception):
    """No further probe may be made. A search that can stops with what it has; reason says which budget."""

    def __init__(self, reason: Ending) -> None:
        super().__init__(reason)
        self.reason = reason
