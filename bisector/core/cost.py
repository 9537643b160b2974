"""What a command cost: the probes that it asked, and its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .outcome import Outcome

STAGES = ("capture", "localise", "causes", "fixes", "minimize", "builds")


@dataclass(frozen=True, kw_only=True)
class Probes:
    """How many there were, by outcome; of `numbisect builds` they are builds. cached: of them, those that
    were not run, since the journal or another build of the same commit has the answer."""

    total: int
    pass_: int
    fail: int
    unresolved: int
    cached: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], cached: int) -> Probes:
        return cls(
            total=len(outcomes),
            pass_=outcomes.count(Outcome.PASS),
            fail=outcomes.count(Outcome.FAIL),
            unresolved=outcomes.count(Outcome.UNRESOLVED),
            cached=cached,
        )


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """Of the whole, of each stage (None where it did not run), and of processor time in all processes."""

    total: float
    capture: float | None
    localise: float | None
    causes: float | None
    fixes: float | None
    minimize: float | None
    builds: float | None
    cpu: float

    @property
    def of_stages(self) -> dict[str, float]:
        """Of each stage that ran."""
        return {stage: took for stage in STAGES if (took := getattr(self, stage)) is not None}
