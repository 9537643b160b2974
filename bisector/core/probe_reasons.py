"""What a measurement shows, as values: in what an output differs, and why a probe proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from .outcome import Outcome
from .reasons import Reason


@dataclass(frozen=True)
class Measured(Reason):
    """What a measurement shows; its words stand in report/probe_reasons.py."""


# -- in what an output differs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaisesOtherwise(Measured):
    """What each of the two runs raises, None where it returns."""

    eager: str | None
    compiled: str | None


@dataclass(frozen=True)
class OtherShape(Measured):
    compiled: tuple[int, ...]
    eager: tuple[int, ...]


@dataclass(frozen=True)
class OtherDtype(Measured):
    compiled: str
    eager: str


@dataclass(frozen=True)
class OtherStrides(Measured):
    """Those of dimensions of one element are written as 0."""

    compiled: tuple[int, ...] | None
    eager: tuple[int, ...] | None


@dataclass(frozen=True)
class FiniteOnOneSide(Measured):
    """elements: of numel, that are inf or nan in one of the two runs alone."""

    elements: int
    numel: int


@dataclass(frozen=True)
class BeyondTolerance(Measured):
    max_abs: float
    tolerance: tuple[float, float]


@dataclass(frozen=True)
class BeyondUlp(Measured):
    """most: that are allowed."""

    ulp: int | None
    most: int


@dataclass(frozen=True)
class BelowCosine(Measured):
    """least: that is allowed."""

    cosine: float
    least: float


Broken = BeyondTolerance | BeyondUlp | BelowCosine


@dataclass(frozen=True)
class ValuesDiffer(Measured):
    """broken: what is not as allowed. unequal: elements of numel that are not bit-equal."""

    broken: Broken
    unequal: int
    numel: int


@dataclass(frozen=True)
class OtherZeros(Measured):
    """zeros: of numel elements, that differ in the sign of a zero alone."""

    zeros: int
    numel: int


# -- what the two runs show together ------------------------------------------------------------------------


@dataclass(frozen=True)
class BothRaise(Measured):
    """what: compiled raises, and eager one of the same type."""

    what: str | None


@dataclass(frozen=True)
class OutputsAgree(Measured):
    """Nothing that was compared differs."""


@dataclass(frozen=True)
class Baseline(Measured):
    """It is what the others are held to."""


@dataclass(frozen=True)
class SameCode(Measured):
    """It is the program that diverges by default."""


# -- why a probe proves nothing -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgramDisagrees(Measured):
    """Runs of one program have several outcomes."""


@dataclass(frozen=True)
class TrialsDisagree(Measured):
    """outcomes: of all trials."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Raises(Measured):
    """One of the two runs, or both, where values are studied. what: eager raises, else compiled."""

    is_eager: bool
    what: str | None


@dataclass(frozen=True)
class NothingToCompare(Measured):
    """The two runs gave nothing that could be compared."""


@dataclass(frozen=True)
class AnotherSignature(Reason):
    """It diverges in another way than what is studied. first: the first output that does."""

    first: Reason


@dataclass(frozen=True)
class NotTaken(Measured):
    """The compile was not asked about a decision that was to be denied, and as many others."""

    decision: str
    others: int
