"""What carries the divergence of a large graph: its operations, and the family of decisions behind them."""

from __future__ import annotations

from dataclasses import dataclass

from .case import Case
from .clusters import patterns
from .decision import DecisionId, Pattern
from .model import ProbeResult
from .search.families import Family


@dataclass(frozen=True)
class Carries:
    """What the errors of a part of the graph carry to the outputs that diverge: by themselves, and what all
    others do; None where that is not known. places: the decisions of the family there, or of an operation
    the nodes at which errors arise. made_by: patterns of the decisions that make an operation differ."""

    name: str
    places: int
    alone: float | None
    without: float | None
    made_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundFamily:
    """layers: in the order of the graph. operations, nodes: those that carry most first. confirmed: the
    second worker saw the whole diverge, and without the family agree, or as much of it removed."""

    family: Family
    layers: tuple[Carries, ...] = ()
    operations: tuple[Carries, ...] = ()
    nodes: tuple[Carries, ...] = ()
    confirmed: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its decisions."""
        return tuple(dict.fromkeys(member.kind for member in self.family.members))

    @property
    def adds_up(self) -> bool | None:
        """Whether the operations' shares sum to the whole, as those of independent errors do; None where they
        are not known."""
        shares = [part.alone for part in self.operations if part.alone is not None]
        return abs(sum(shares) - 1.0) <= TOLERANCE if len(shares) > 1 else None

TOLERANCE = 0.15  # of a sum of shares


@dataclass(frozen=True)
class Found:
    """The part of the graph in which one operation differs to the bit, its compile, and the decisions that,
    denied there, give eager's bits."""

    case: Case
    default: ProbeResult
    repair: frozenset[DecisionId]


@dataclass(frozen=True)
class Mechanism:
    """Of one sort of operation: the names in the trace at which errors arise, what these carry to the outputs
    by themselves, and what makes one of them differ; None where by itself it does not differ, or no decisions
    give it eager's bits."""

    operation: str
    nodes: tuple[str, ...]
    share: float
    found: Found | None

    @property
    def patterns(self) -> frozenset[Pattern]:
        """Of the decisions of the repair: a decision is of a pattern wherever it is taken."""
        return patterns(self.found.repair) if self.found is not None else frozenset()
