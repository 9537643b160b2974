"""Calls that diverge beside the one that is explained."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Relation(enum.Enum):
    """Of the cause of another call to the one that was explained."""

    SAME = "same"
    ANOTHER = "another"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class AlsoDiverges:
    """A call that diverges, other than the one that was explained. number: from 1, as `--call` takes it."""

    number: int
    entry: str
    reason: str
    cause: Relation
