"""The user's own script, run under the fixes that were found."""

from __future__ import annotations

from dataclasses import dataclass

from .endings import Ending
from .outcome import Outcome
from .reasons import Reason


@dataclass(frozen=True)
class UnderFix:
    """The user's own script, run plainly under a fix, against its run with compilation off. fix: its ID.
    reason: None where it agrees. comparisons: how many of its own comparisons agree, where all do.
    own_difference: which of them fails with compilation off too, and why; None where none does. mends_some:
    what still diverges did so without the fix too, while something else is mended: it may be of another
    cause."""

    fix: str
    outcome: Outcome
    reason: Reason | None
    comparisons: int
    own_difference: Reason | None = None
    mends_some: bool = False

    @property
    def refutes(self) -> bool:
        """Whether the script shows that the fix mends nothing, or not that alone."""
        return self.outcome is Outcome.FAIL and not self.mends_some


@dataclass(frozen=True)
class ScriptTried:
    """The user's own script under fixes, in the order in which they were tried, until one mends it.
    stopped_because: why no more were tried, None where none was left."""

    fixes: tuple[UnderFix, ...] = ()
    stopped_because: Ending | None = None

    @property
    def shown(self) -> UnderFix | None:
        """What is reported: the run that agrees, else the first that diverges, else the first."""
        if not self.fixes or self.fixes[-1].outcome is Outcome.PASS:
            return self.fixes[-1] if self.fixes else None
        # One under which it diverges says more than one without an outcome.
        return next((one for one in self.fixes if one.outcome is Outcome.FAIL), self.fixes[0])

    @property
    def refuted(self) -> frozenset[str]:
        """The IDs of the fixes under which the script still diverges."""
        return frozenset(one.fix for one in self.fixes if one.refutes)
