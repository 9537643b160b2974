"""What a run tells while it is at work, as values; their words stand in report/progress.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .evidence import Evidence
from .model import Json, Measurement
from .outcome import Outcome
from .protocol import Failed, OfCalls, RunCalls, RunProbe, RunVerdict
from .reasons import Reason
from .verdict import Verdict


@dataclass(frozen=True)
class Step:
    """Something that was begun or found; its words stand in report/progress.py."""


Progress = Callable[[str, Step], None]  # with the stage that it is of


# -- until the verdict --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Running(Step):
    target: str


@dataclass(frozen=True)
class AgainWith(Step):
    """variables: that the script sets before it imports torch."""

    variables: Sequence[str]


@dataclass(frozen=True)
class AgainDrawingAlike(Step):
    """What still differs where both draw the same random numbers: the script, or the call."""

    is_script: bool


@dataclass(frozen=True)
class OtherSeeds(Step):
    """The two agree, and the script, which sets no seed, is run with these too."""

    seeds: tuple[int, int]


@dataclass(frozen=True)
class NoCallDiverges(Step):
    """The script is run with and without compilation."""


@dataclass(frozen=True)
class Judged(Step):
    verdict: Verdict


@dataclass(frozen=True)
class Probed(Step):
    request: RunProbe | RunCalls | RunVerdict
    answer: Measurement | OfCalls | Evidence | Failed


# -- the search ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FirstBadBackend(Step):
    name: str | None


@dataclass(frozen=True)
class OperationsDiffer(Step):
    """sorts: of operations that differ, where no single node carries it."""

    sorts: int


@dataclass(frozen=True)
class RegionDiverges(Step):
    """calls: of the region. of: those of the whole graph."""

    calls: int
    of: int


@dataclass(frozen=True)
class RegionRefuted(Step):
    """What repairs the region does not repair the whole."""


@dataclass(frozen=True)
class Begins(Step):
    """The nodes at which it arises and at which it grows most, if one is known."""

    origin: str
    amplifier: str | None


@dataclass(frozen=True)
class FlagsTried(Step):
    """repairing: those that repair it."""

    repairing: Sequence[str]


@dataclass(frozen=True)
class OneRepair(Step):
    members: Sequence[str]


@dataclass(frozen=True)
class FamilyCarries(Step):
    """decisions: how many together. removed: how much of it they carry, None where they repair it."""

    decisions: int
    removed: float | None


@dataclass(frozen=True)
class SetsFound(Step):
    causes: int
    repairs: int


@dataclass(frozen=True)
class Confirmed(Step):
    """What a second process confirms. not_shown: why it confirms nothing, None where it does."""

    causes: Sequence[Sequence[str]]
    repairs: Sequence[Sequence[str]]
    settings: Sequence[Mapping[str, Json]]
    not_shown: Reason | None


@dataclass(frozen=True)
class Smaller(Step):
    """What still diverges."""

    calls: int
    elements: int


@dataclass(frozen=True)
class GraphRepairsNothing(Step):
    """Nothing in the graph repairs it, and the script itself is run."""


# -- fresh processes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReproDiverges(Step):
    """has_fix: `--fixed` agrees."""

    file: str
    has_fix: bool


@dataclass(frozen=True)
class FailsAsTest(Step):
    """said: the first line of its output."""

    file: str
    said: str


@dataclass(frozen=True)
class ScriptUnderFix(Step):
    """why: the script itself does not agree under the fix, None where it does."""

    fix: str
    why: Reason | None


# -- builds, and many failures ------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexRead(Step):
    url: str
    versions: int


@dataclass(frozen=True)
class BuildAsked(Step):
    name: str
    commit: str | None
    outcome: Outcome
    reason: str
    same_as: str | None


@dataclass(frozen=True)
class BuildAskedUnder(Step):
    name: str
    settings: Mapping[str, Json]
    outcome: Outcome


@dataclass(frozen=True)
class LookedAt(Step):
    """A failure of a triage. found: its cause, else why there is none, else its verdict."""

    name: str
    found: str
