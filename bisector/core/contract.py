"""Whether a search can start: what its two ends must say, and what follows when they do not.

Both searches run between the plain baseline, which must PASS, and the default compile, which must FAIL.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bisector.core.model import ProbeResult
from bisector.core.outcome import Outcome


class Breach(enum.Enum):
    """In which way the ends break the contract."""

    DEFAULT_PASSES = "default passes"
    DEFAULT_UNRESOLVED = "default unresolved"
    PLAIN_FAILS = "plain fails"
    PLAIN_UNRESOLVED = "plain unresolved"


@dataclass(frozen=True)
class ContractCheck:
    """breach and problem are None where the contract holds; problem is one line that says what follows."""

    breach: Breach | None = None
    problem: str | None = None

    @property
    def holds(self) -> bool:
        return self.breach is None


_CAUSES = {
    Breach.DEFAULT_PASSES: "with every decision enabled in an otherwise unoptimized compile nothing diverges "
    "({reason}): the mismatch comes from something that is no decision; only repairs were searched",
    Breach.DEFAULT_UNRESOLVED: "with every decision enabled in an otherwise unoptimized compile it could not "
    "be told whether it diverges ({reason}); only repairs were searched",
    Breach.PLAIN_FAILS: "the unoptimized compile diverges too ({reason}): the formula of a lowering is to "
    "blame, or something that is no decision; no causes were searched",
    Breach.PLAIN_UNRESOLVED: "it could not be told whether the unoptimized compile diverges ({reason}); "
    "only repairs were searched",
}

_REPAIRS = {
    Breach.DEFAULT_PASSES: "the default compile agrees with eager ({reason}): there is nothing to repair; "
    "if it diverged before, probe it more often with `--repeat`",
    Breach.DEFAULT_UNRESOLVED: "it could not be told whether the default compile diverges ({reason}): no "
    "search can start; for a timeout raise `--timeout`, for trials that disagree fix the seed with `--seed`",
    Breach.PLAIN_FAILS: "with every decision disabled the compile still diverges ({reason}): no set of "
    "decisions repairs it; single nodes were run by their ATen kernels instead",
    Breach.PLAIN_UNRESOLVED: "with every decision disabled it could not be told whether the compile diverges "
    "({reason}); single nodes were run by their ATen kernels instead",
}


def check_causes(nothing_enabled: ProbeResult, everything_enabled: ProbeResult) -> ContractCheck:
    """Whether causes can be searched. nothing_enabled is the plain baseline."""
    return _check(nothing_enabled, everything_enabled, _CAUSES)


def check_repairs(nothing_denied: ProbeResult, everything_denied: ProbeResult) -> ContractCheck:
    """Whether repairs can be searched. nothing_denied is the default compile."""
    return _check(everything_denied, nothing_denied, _REPAIRS)


def _check(plain: ProbeResult, default: ProbeResult, messages: dict[Breach, str]) -> ContractCheck:
    # The default end comes first: where nothing diverges, the plain end does not matter.
    if default.outcome is Outcome.PASS:
        breach, reason = Breach.DEFAULT_PASSES, default.reason
    elif default.outcome is Outcome.UNRESOLVED:
        breach, reason = Breach.DEFAULT_UNRESOLVED, default.reason
    elif plain.outcome is Outcome.FAIL:
        breach, reason = Breach.PLAIN_FAILS, plain.reason
    elif plain.outcome is Outcome.UNRESOLVED:
        breach, reason = Breach.PLAIN_UNRESOLVED, plain.reason
    else:
        return ContractCheck()
    return ContractCheck(breach, messages[breach].format(reason=reason))
