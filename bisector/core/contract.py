"""Whether a search can start: what its two ends must say, and what follows when they do not.

Both searches run between the plain baseline, which must PASS, and the default compile, which must FAIL.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bisector.core.model import Outcome, ProbeResult


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
    Breach.DEFAULT_PASSES: "with every decision enabled over the plain baseline nothing diverges ({reason}): "
    "the divergence comes from something that is no decision; no cause can be searched, search repairs alone",
    Breach.DEFAULT_UNRESOLVED: "with every decision enabled the plain baseline cannot be judged ({reason}): "
    "no cause can be searched; search repairs alone",
    Breach.PLAIN_FAILS: "the plain baseline diverges too ({reason}): the formula of a lowering is to blame, "
    "or something that is no decision; search the places (`lower`) instead of the causes",
    Breach.PLAIN_UNRESOLVED: "the plain baseline cannot be judged ({reason}): no cause can be searched; "
    "search repairs alone",
}

_REPAIRS = {
    Breach.DEFAULT_PASSES: "the default compile agrees with eager ({reason}): there is nothing to repair; "
    "if it diverged before, probe it more often with `--repeat`",
    Breach.DEFAULT_UNRESOLVED: "the default compile cannot be judged ({reason}): no search can start before "
    "it can; for a timeout raise `--timeout`, for trials that disagree fix the seed with `--seed`",
    Breach.PLAIN_FAILS: "with every decision denied the compile still diverges ({reason}): no set of "
    "decisions repairs it; search the places (`lower`), then the flags",
    Breach.PLAIN_UNRESOLVED: "with every decision denied the compile cannot be judged ({reason}): no repair "
    "can be searched among the decisions; search the flags",
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
