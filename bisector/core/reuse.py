"""Why a call that runs code which an earlier call compiled gives something else than eager: what has changed
since, and neither a guard of that code nor the key of the cache holds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

# Why there is no reason.
AGREES = "eager gives the same on its inputs"
NOTHING_CHANGED = "of what was looked at, nothing has changed"
SEVERAL = "undoing one change makes eager give what the call gave, and undoing all others does so too"
NOT_BY_CHANGES = "undoing what changed does not make eager give what the call gave"


@dataclass(frozen=True)
class Changed:
    """Something that a call depends on, as it was when the code was compiled, and as it is at the call. name,
    was, now: as they are told: `rates['slow']`, 0.1, 0.5."""

    name: str
    was: str
    now: str


class Let(enum.Enum):
    """What let a call run code of an earlier one."""

    GUARDS = "guards"
    CACHE = "cache"  # of compiled graphs, by its key


@dataclass(frozen=True)
class Reuse:
    """A call that runs code of an earlier one. entry: the name of what was compiled; call, since: the two
    calls, numbered from 1. let: what let it.

    reasons: sets of changes. Eager gives what the call gave where the changes of one set alone are undone,
    and does not where all others are. others: names of what changed besides. unknown: why there is no
    reason, empty where there is one.
    """

    entry: str
    call: int
    since: int
    let: Let = Let.GUARDS
    reasons: tuple[tuple[Changed, ...], ...] = ()
    others: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True)
class Reuses:
    """One for each call that was asked about and ran such code."""

    calls: tuple[Reuse, ...]
