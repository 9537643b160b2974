"""What a probe, a comparison and a build say: compiled agrees with eager, or diverges, or nobody can tell."""

from __future__ import annotations

import enum


class Outcome(enum.Enum):
    """What a probe says. A crash, a hang or a compile error is UNRESOLVED, never FAIL."""

    PASS = "PASS"  # compiled agrees with eager
    FAIL = "FAIL"  # diverges, with the signature under study
    UNRESOLVED = "UNRESOLVED"  # cannot tell; the reason stands with it

    def inverted(self) -> Outcome:
        """PASS for FAIL and the reverse: a search for repairs is a search for causes upside down."""
        return {Outcome.PASS: Outcome.FAIL, Outcome.FAIL: Outcome.PASS}.get(self, self)

    @property
    def status(self) -> int:
        """The exit status of `numbisect check`, and of a repro: what `git bisect run` takes."""
        return {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.UNRESOLVED: 125}[self]


OF_STATUS = {outcome.status: outcome for outcome in Outcome}
