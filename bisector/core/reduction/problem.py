"""What a reduction pass sees: the case so far, its graph, and one question it may ask.

A smaller case counts only if it diverges with the same signature and the same fix repairs it
(`Interesting`); without the second half a reducer drifts to another bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..case import Case
from ..graphinfo import Axis, GraphInfo
from ..model import OutputMeasurement, ProbeResult
from ..outcome import Outcome


@dataclass(frozen=True)
class Trial:
    """A case that was asked about: FAIL means interesting, with the result of its default compile.

    also: of an interesting one, what else it was asked that diverged.
    """

    case: Case
    outcome: Outcome
    default: ProbeResult
    also: Sequence[ProbeResult] = ()


# The trial of an interesting one may be about a case of its own: the one that was asked about on other input
# values.
Interesting = Callable[[Case], Trial]
# By input, the simpler values to try, the simplest first.
Simpler = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ValuesSeen:
    """What a followed run showed of the nodes behind what diverges. equal: both runs have the same bits.
    differing: those that differ by more than is tolerated, in the order they run. origin: where that arises.
    """

    equal: frozenset[str]
    differing: tuple[str, ...]
    origin: str | None


def _not_asked(case: Case, simpler: Simpler) -> Case | None:
    return None


@dataclass
class Problem:
    """The best case so far. `describe` gives the graph of a case.

    at_once: the first interesting one of several cases that are asked about side by side, each on its own
    input values. simplest: the case with the simplest values for each input with which it is still
    interesting, in one question; the case itself where there are none, None where that cannot be asked so.
    values: where the run was followed.
    worst: the flat index of the element of an output that diverges most.
    anchored: whether repairs hold the case to the bug, or its signature alone does. decisive: the nodes whose
    decisions hold it, where they are known; needed: those of them without which no case is interesting.
    also: results of the best case that diverge with its default; what they show must be kept too.
    uncut: axes of inputs, with the length of which nothing shorter that was tried is interesting.
    """

    case: Case
    default: ProbeResult
    interesting: Interesting
    describe: Callable[[Case], GraphInfo]
    worst: Callable[[OutputMeasurement], int | None] = lambda output: next(iter(output.worst), None)
    anchored: bool = False
    decisive: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    accepted: int = 0
    also: Sequence[ProbeResult] = ()
    uncut: dict[Axis, int] = field(default_factory=dict)
    values: ValuesSeen | None = None
    at_once: Callable[[Sequence[Case]], Trial | None] = lambda cases: None
    simplest: Callable[[Case, Simpler], Case | None] = _not_asked

    @property
    def info(self) -> GraphInfo:
        return self.describe(self.case)

    def first_interesting(self, cases: Iterable[Case]) -> bool:
        """Take the first case in order that is interesting; whether there was one."""
        for case in cases:
            if self.leaves_out_needed(case):
                continue
            trial = self.interesting(case)
            if trial.outcome is Outcome.FAIL:
                self.accept(trial)
                return True
        return False

    def first_at_once(self, cases: Iterable[Case]) -> bool:
        """The same of cases of which each is worth a question, whatever the others give."""
        asked = [case for case in dict.fromkeys(cases) if not self.leaves_out_needed(case)]
        trial = self.at_once(asked) if asked else None
        if trial is not None:
            self.accept(trial)
        return trial is not None

    def leaves_out_needed(self, case: Case) -> bool:
        """Whether an edit takes out a node that no interesting case can do without; it is not asked about."""
        return not self.needed.isdisjoint({*case.cut, *(node for node, _ in case.bypass)})

    def rebase(self) -> None:
        """Let the edits that follow apply to the case as it stands, smaller inputs included."""
        self.case = self.case.rebased()

    def accept(self, trial: Trial) -> None:
        self.case, self.default, self.also = trial.case, trial.default, trial.also
        self.accepted += 1
