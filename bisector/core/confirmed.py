"""The sets that a search found, and what a second worker says of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .case import Case
from .decision import Decision, DecisionId
from .model import ProbeResult
from .notes import Note
from .outcome import Outcome
from .reasons import Reason
from .search.graded import Graded
from .search.minimal import MinimalSet
from .search.sets import SetsFound

HeldRepair = tuple[MinimalSet[DecisionId], ProbeResult]


@dataclass(frozen=True)
class Repair:
    """A repair of the case that was searched, and what it does to the whole subject."""

    found: MinimalSet[DecisionId]
    confirmed: bool
    removed_fraction: float


@dataclass(frozen=True)
class SecondOpinion:
    """Outcomes in the second worker, on the whole subject: of the default compile, and of each repair."""

    default: Outcome
    repairs: tuple[Outcome, ...]


@dataclass(frozen=True)
class Confirmed:
    """The sets that were found, each with whether it is confirmed.

    places: fallbacks that repair where nothing finer does. decisions: those that are named, with torch's own
    file and line where a formula is to blame. second: None where the second worker could not be asked.
    held: the repairs that repair the whole there; a fix need not be minimal, a repair must be. refuted: of
    the fixes by flags those that do not repair there. family: the default compile and that with a family
    denied, None where none was asked about. not_shown: why nothing could be confirmed, None where
    it could. backends: lower ones that agree there.
    """

    repairs: tuple[Repair, ...] = ()
    causes: tuple[tuple[MinimalSet[DecisionId], bool], ...] = ()
    places: tuple[DecisionId, ...] = ()
    decisions: tuple[Decision, ...] = ()
    second: SecondOpinion | None = None
    held: tuple[HeldRepair, ...] = ()
    refuted: frozenset[str] = frozenset()
    family: tuple[ProbeResult, ProbeResult] | None = None
    not_shown: Reason | None = None
    backends: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()

    @property
    def proved_causes(self) -> list[MinimalSet[DecisionId]]:
        return [cause for cause, proved in self.causes if proved]

    @property
    def proved_repairs(self) -> list[MinimalSet[DecisionId]]:
        return [repair.found for repair in self.repairs if repair.confirmed]


@dataclass(frozen=True)
class Decided:
    """Sets over one case: the one searched, which the causes are confirmed on.

    places: fallbacks that repair where no finer decision does. also_denied: the flags that stand in as
    decisions and the lowerings whose formula is to blame, which the plain baseline denies too. checks: of the
    ends that did not hold. graded: what each carries, where no single one repairs.
    """

    case: Case
    decisions: tuple[Decision, ...] = ()
    sets: SetsFound[DecisionId] = field(default_factory=SetsFound[DecisionId])
    places: tuple[DecisionId, ...] = ()
    also_denied: tuple[DecisionId, ...] = ()
    checks: tuple[Note, ...] = ()
    graded: Graded | None = None

    @property
    def members(self) -> list[DecisionId]:
        """The decisions of all causes and repairs."""
        return [member for found in (*self.sets.causes, *self.sets.repairs) for member in found.members]
