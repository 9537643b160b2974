"""The first backend of a ladder that diverges."""

from __future__ import annotations

from collections.abc import Sequence

from .notes import BackendUnjudged, NoBackendDiverges, Note
from .outcome import Outcome


def first_bad(outcomes: Sequence[tuple[str, Outcome]]) -> tuple[str | None, Note | None]:
    """The first rung that diverges, from the lowest on. None, with the reason, where that is not known: a
    rung before it could not be judged, or none diverges."""
    for rung, outcome in outcomes:
        if outcome is Outcome.FAIL:
            return rung, None
        if outcome is Outcome.UNRESOLVED:
            return None, BackendUnjudged(rung)
    return None, NoBackendDiverges()
