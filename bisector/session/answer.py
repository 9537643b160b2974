"""What the stages of a run found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bisector.core.criterion import Criterion
from bisector.core.graphinfo import GraphInfo
from bisector.core.model import Decision, Measurement, kind_of
from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.core.trace import NodeTrace
from bisector.core.verdict import Verdict

from .fixes import Fix
from .flags.contrast import Contrast
from .flags.trials import FlagWalk
from .neighbour import Neighbour


@dataclass
class Repair:
    """A repair of the minimal case, and what it does to the whole subject."""

    found: MinimalSet
    confirmed: bool
    removed_fraction: float


@dataclass
class Answer:
    """Everything a run may have found; what stayed empty could not be established."""

    target: str
    run: str
    environment: Mapping[str, Any]
    verdict: Verdict | None = None
    criterion: Criterion = field(default_factory=Criterion)
    default: Measurement = field(default_factory=Measurement)
    first_bad_backend: str | None = None
    entry: str | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: NodeTrace | None = None
    amplifier: NodeTrace | None = None
    walk: FlagWalk = field(default_factory=FlagWalk)
    contrast: Contrast | None = None
    repairs: list[Repair] = field(default_factory=list)
    causes: list[tuple[MinimalSet, bool]] = field(default_factory=list)
    places: tuple[str, ...] = ()
    graded: Graded | None = None
    decisions: tuple[Decision, ...] = ()
    fixes: list[tuple[Fix, bool]] = field(default_factory=list)
    minimal: GraphInfo | None = None
    minimal_source: str | None = None
    neighbour: Neighbour | None = None
    repro: str | None = None
    repro_lines: int | None = None
    test: str | None = None
    confirmation: Mapping[str, Any] | None = None
    hooks_off: Mapping[str, str] = field(default_factory=dict)
    not_here: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    builds: Mapping[str, Any] | None = None
    stopped_because: str | None = None

    @property
    def proved_kinds(self) -> frozenset[str]:
        """The kinds of the decisions in confirmed causes and repairs."""
        sets = [r.found for r in self.repairs if r.confirmed]
        sets += [found for found, confirmed in self.causes if confirmed]
        return frozenset(kind_of(member) for found in sets for member in found.members)

    @property
    def confirmed(self) -> bool:
        """Whether there is a confirmed answer: a repair, a cause or a fix."""
        return (
            any(r.confirmed for r in self.repairs)
            or any(confirmed for _, confirmed in self.causes)
            or any(confirmed for _, confirmed in self.fixes)
            or (self.contrast is not None and bool(self.contrast.repairs or self.contrast.causes))
        )
