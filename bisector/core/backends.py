"""The ladder of backends: Dynamo alone, with AOTAutograd, with decompositions, with Inductor."""

from __future__ import annotations

from collections.abc import Iterable

INDUCTOR = "inductor"
# From Dynamo alone to all of it (torch/_dynamo/backends/debugging.py, common.py).
RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", INDUCTOR)
OWN = "custom"  # none of these: the script's own backend, or another package's
# Rungs before Inductor: what they show, Dynamo or AOTAutograd makes.
RUNGS_ABOVE = RUNGS[:-1]


def rung_of(backend: object) -> str:
    """The rung of what was given to torch.compile as its backend: a name, or a function."""
    return backend if isinstance(backend, str) and backend in RUNGS else OWN


def last_rung(backends: Iterable[str]) -> str:
    """Of the rungs that a script names the one that does most; Inductor's where it names none."""
    named = set(backends) or {INDUCTOR}
    return max(named, key=_place)


def rungs_before(last: str) -> tuple[str, ...]:
    """What a ladder tries before the script's own rung. Inductor is not tried in the place of a backend of
    the script's own, which need not be built on it."""
    return tuple(rung for rung in RUNGS if rung != INDUCTOR and is_beyond(last, rung))


def is_beyond(rung: str, other: str) -> bool:
    """Whether a rung does more than the other."""
    return _place(rung) > _place(other)


def _place(rung: str) -> int:
    return RUNGS.index(rung) if rung in RUNGS else len(RUNGS)
