"""Why a divergence in values is of its class, as values: undefined ones, nodes, casts, accuracy, rounding.

path is that of the output in question, numel how many elements it has, n_diff how many of them differ.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .leaning import Leaning
from .reasons import Reason


@dataclass(frozen=True)
class OfValues(Reason):
    """What a divergence in values shows; its words stand in report/value_reasons.py."""


# -- by nodes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromUndefined(OfValues):
    """All elements that differ depend on a node that torch leaves undefined. what: it is, as the worker
    says."""

    node: str
    what: str


@dataclass(frozen=True)
class UndefinedNode(OfValues):
    """More than rounding first arises at a node that torch leaves undefined. what: as above."""

    node: str
    op: str
    what: str


@dataclass(frozen=True)
class NodeDiffers(OfValues):
    """A node is off by more than rounding on equal inputs. ulp: by how much, infinite where no rounding comes
    near. eager_ulp: how much of it is eager's own rounding, None where that is not known."""

    node: str
    op: str
    ulp: float
    eager_ulp: float | None


# -- by casts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """The rms distance of each run to a float64 reference."""

    compiled: float
    eager: float


class ShownBy(enum.Enum):
    """What shows that a cast to a narrower dtype, which the program wrote, is not executed."""

    EXECUTED = "executed"  # where it is, the output agrees
    LEFT_OUT = "left out"  # the output is that of eager without it
    ROUNDING_LEFT = "rounding left"  # where it is, no more is left than rounding makes


@dataclass(frozen=True)
class CastLeftOut(OfValues):
    by: ShownBy


@dataclass(frozen=True)
class ErrorsByCasts(OfValues):
    """with_casts, without_any: against a reference that rounds where the program casts, and one that never
    does."""

    path: str
    how: CastLeftOut
    with_casts: Errors
    without_any: Errors


@dataclass(frozen=True)
class CastExplainsPart(OfValues):
    """Where the cast that is left out is executed, the output still differs. left: by up to how much, None
    where that is not known."""

    left: float | None


@dataclass(frozen=True)
class OtherwiseWithoutCasts(OfValues):
    """Where the cast that is left out is executed, the output agrees; eager without it differs from compiled
    too, and there is no float64 run."""


# -- without rounding ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementsDiffer(OfValues):
    path: str
    n_diff: int
    numel: int


@dataclass(frozen=True)
class NoRoundingExplains(OfValues):
    """The dtype has no rounding, and none before the output explains what differs. unmoved: how many of the
    elements no rounding moves, None where that is not known."""

    differ: ElementsDiffer
    dtype: str
    unmoved: int | None


@dataclass(frozen=True)
class RoundingFallsShort(OfValues):
    """The dtype has no rounding, and that before the output moves eager too, but less far. unexplained: at
    how many elements."""

    differ: ElementsDiffer
    dtype: str
    unexplained: int


# -- by accuracy --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NearerTo(OfValues):
    """how: compiled stands to the float64 reference."""

    path: str
    how: Leaning
    errors: Errors


@dataclass(frozen=True)
class NearerOnOthers(OfValues):
    """The same over so many other inputs, where those of the run do not tell."""

    path: str
    how: Leaning
    inputs: int
    errors: Errors


@dataclass(frozen=True)
class NotFinite(OfValues):
    """compiled, eager: elements of each that are finite in one of it and the reference alone."""

    path: str
    how: Leaning
    compiled: int
    eager: int


@dataclass(frozen=True)
class NearerUnclear(OfValues):
    """Which run is nearer is not known. few: so few elements differ that they cannot tell."""

    path: str
    n_diff: int
    few: bool
    errors: Errors


@dataclass(frozen=True)
class NoReferenceToTell(OfValues):
    """It diverges, and there is no float64 reference."""


# -- by rounding --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeyondNudges(OfValues):
    """max_abs: by how much the output is off. moved: by how much one ulp at each operation moves eager."""

    path: str
    max_abs: float
    moved: float


@dataclass(frozen=True)
class AtAStep(OfValues):
    """An output without rounding comes from rounded values that lie at a step."""

    path: str


@dataclass(frozen=True)
class Growth:
    """The node at which a difference grows most. gain: how many times, infinite where without bound."""

    node: str
    op: str
    gain: float


@dataclass(frozen=True)
class RoundingGrows(OfValues):
    """At each node by itself the two runs differ by rounding alone. ulp: at most. most: where it grows most,
    None where it grows from node to node."""

    ulp: float
    most: Growth | None


@dataclass(frozen=True)
class EagerMoves(OfValues):
    """One ulp at each node moves eager itself beyond the tolerance: n_diff elements, by up to max_abs."""

    path: str
    n_diff: int
    numel: int
    max_abs: float
