"""Whether a search can start: what its two ends must say.

Both searches run between the plain baseline, which must PASS, and the default compile, which must FAIL.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bisector.core.model import ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.reasons import SILENT, Reason


class Breach(enum.Enum):
    """In which way the ends break the contract."""

    DEFAULT_PASSES = "default passes"
    DEFAULT_UNRESOLVED = "default unresolved"
    PLAIN_FAILS = "plain fails"
    PLAIN_UNRESOLVED = "plain unresolved"


@dataclass(frozen=True)
class ContractCheck:
    """breach: None where the contract holds. reason: what the end says that breaks it."""

    breach: Breach | None = None
    reason: Reason = SILENT

    @property
    def holds(self) -> bool:
        return self.breach is None


def check_causes(nothing_enabled: ProbeResult, everything_enabled: ProbeResult) -> ContractCheck:
    """Whether causes can be searched. nothing_enabled is the plain baseline."""
    return _check(nothing_enabled, everything_enabled)


def check_repairs(nothing_denied: ProbeResult, everything_denied: ProbeResult) -> ContractCheck:
    """Whether repairs can be searched. nothing_denied is the default compile."""
    return _check(everything_denied, nothing_denied)


def _check(plain: ProbeResult, default: ProbeResult) -> ContractCheck:
    # The default end comes first: where nothing diverges, the plain end does not matter.
    if default.outcome is Outcome.PASS:
        return ContractCheck(Breach.DEFAULT_PASSES, default.reason)
    if default.outcome is Outcome.UNRESOLVED:
        return ContractCheck(Breach.DEFAULT_UNRESOLVED, default.reason)
    if plain.outcome is Outcome.FAIL:
        return ContractCheck(Breach.PLAIN_FAILS, plain.reason)
    if plain.outcome is Outcome.UNRESOLVED:
        return ContractCheck(Breach.PLAIN_UNRESOLVED, plain.reason)
    return ContractCheck()
