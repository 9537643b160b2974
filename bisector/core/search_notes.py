"""What the stages notice of the search: where it begins, what it leaves open, the minimal case, the repro."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .contract import Breach
from .notes import Note
from .reasons import Reason

# -- where the search begins --------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecisionsOfTheScript(Note):
    """Decisions are named as they are in the whole script."""


@dataclass(frozen=True)
class EndedAtCall(Note):
    """call: the place, from 1, of the first that diverges, after which the script ends in the search. of: how
    many it makes."""

    call: int
    of: int


@dataclass(frozen=True)
class GraphsCompiledAlone(Note):
    """graphs: the numbers of those with which the script diverges. of: how many it has."""

    graphs: tuple[int, ...]
    of: int


@dataclass(frozen=True)
class CallsCompiledAlone(Note):
    """calls: the places, from 1, of those with which the script diverges. of: how many it makes."""

    calls: tuple[int, ...]
    of: int


@dataclass(frozen=True)
class StatementsLeftOut(Note):
    """lines: of code that the script has in the repro. of: those that it has as a whole."""

    lines: int
    of: int


@dataclass(frozen=True)
class SearchedInRegion(Note):
    """calls: of the region. of: those of the whole graph."""

    calls: int
    of: int


@dataclass(frozen=True)
class SearchedOnPart(Note):
    """elements: of the part. of: those of the whole inputs, or of a region's."""

    elements: int
    of: int


@dataclass(frozen=True)
class SearchedAtOperation(Note):
    """No single node carries the divergence; flags were tried on one operation."""

    operation: str


@dataclass(frozen=True)
class RegionRefuted(Note):
    """Nothing that repairs the region that was searched first repairs the whole."""


@dataclass(frozen=True)
class PartRefuted(Note):
    """No flag that repairs a part of the inputs repairs the whole."""


@dataclass(frozen=True)
class GraphsRefuted(Note):
    """No flag that repairs the script up to a call, or some of its graphs, repairs the whole."""


@dataclass(frozen=True)
class LaterCallsDiverge(Note):
    """What repairs the script up to the first call that diverges is not seen to repair the calls after it."""


# -- the compiled run, followed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Untraced(Note):
    """The origin and the amplifier are not established."""

    why: Note


@dataclass(frozen=True)
class RaisesInstead(Note):
    """One of the two runs has no values to follow."""


@dataclass(frozen=True)
class AgreesWhenWatched(Note):
    """The compiled program that returns its intermediate values does not diverge in this way."""


@dataclass(frozen=True)
class NothingArises(Note):
    """No node differs from eager on equal inputs."""


@dataclass(frozen=True)
class NotMaterialized(Note):
    """nodes: whose values the compiled program does not store."""

    nodes: tuple[str, ...]


# -- causes and repairs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CausesUnsearched(Note):
    """Causes were not searched, as the plain baseline and the default compile over it are not what they must
    be. reason: of the end that is not."""

    breach: Breach
    reason: Reason


@dataclass(frozen=True)
class RepairsUnsearched(Note):
    """The same of repairs, and of the compile in which everything is denied."""

    breach: Breach
    reason: Reason


@dataclass(frozen=True)
class DeniedUnjudged(Note):
    """What disabling each of these sets does could not be judged; each may be a repair."""

    sets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DeniedUnexplained(Note):
    """Each of these sets, disabled, breaks every cause that was found and does not repair: one is missing."""

    sets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RestUnjudged(Note):
    """What disabling all but each of these sets does could not be judged; a repair may be missing."""

    sets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class NoRepairKnown(Note):
    """Nothing is known that repairs the whole graph and could hold smaller cases to the same bug."""


@dataclass(frozen=True)
class DivergesBeforeInductor(Note):
    """backend: a lower one that diverges, where nothing repairs."""

    backend: str


@dataclass(frozen=True)
class NotConfirmed(Note):
    """why: what the second process shows, or why it could not be asked."""

    why: Reason


# -- the minimal case ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotMinimized(Note):
    """The user did not want a smaller case."""


@dataclass(frozen=True)
class MechanismAlone(Note):
    """What repairs the minimal case leaves the whole graph diverging."""


@dataclass(frozen=True)
class InputsReplaced(Note):
    """The inputs of the minimal case are not the script's own."""


@dataclass(frozen=True)
class SizeNotTried(Note):
    """elements: of inputs that may be larger than they need to be."""

    elements: int


@dataclass(frozen=True)
class Dimension:
    """Of an input or a constant. length: how many indices it has."""

    name: str
    dim: int
    length: int


@dataclass(frozen=True)
class AllElementsNeeded(Note):
    """elements: of the inputs. along: the dimensions along which less was tried and does not diverge."""

    elements: int
    along: tuple[Dimension, ...]


@dataclass(frozen=True)
class SmallerCaseNotFollowed(Note):
    """ops: ATen calls of the smaller case. why: how it differs from the divergence under study."""

    ops: tuple[str, ...]
    why: Note


@dataclass(frozen=True)
class NotRepairedAlike(Note):
    """A case diverges in the same way, but what repairs the target does not repair it."""


# -- the repro and the test ---------------------------------------------------------------------------------


class ReproOf(enum.Enum):
    """What a repro is made of."""

    GRAPH = "graph"
    SCRIPT = "script"


@dataclass(frozen=True)
class ReproNotWritten(Note):
    of: ReproOf
    why: str


@dataclass(frozen=True)
class ReproAgrees(Note):
    """A repro does not diverge in plain Python. printed: its first line."""

    of: ReproOf
    printed: str


@dataclass(frozen=True)
class FixFailsInRepro(Note):
    """fix: the ID of one that does not repair the repro in a fresh process."""

    fix: str


@dataclass(frozen=True)
class NotFailingAsTest(Note):
    """The test does not fail as it should in a fresh process. printed: its first line, "" where it passes."""

    printed: str
