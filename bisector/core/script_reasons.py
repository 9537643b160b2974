"""Why the verdict on a script is as it is, as values: its own runs, what carries a difference through it, the
first rung that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .notes import CallName
from .program import EffectKind
from .reasons import Reason

# -- where two of its runs differ ---------------------------------------------------------------------------


@dataclass(frozen=True)
class AtCall(Reason):
    """of: how many compiled calls the script makes."""

    call: CallName
    of: int
    why: Reason


@dataclass(frozen=True)
class AndMore(Reason):
    """first: the first output that diverges. more: how many others do: a training step has hundreds."""

    first: Reason
    more: int


@dataclass(frozen=True)
class ComparisonFails(Reason):
    """number: from 1, of its own comparison that fails compiled alone. of: how many it makes."""

    number: int
    of: int


@dataclass(frozen=True)
class OtherEnd(Reason):
    """compiled, eager: what ends it."""

    compiled: str
    eager: str


@dataclass(frozen=True)
class LineMoves(Reason):
    """All of the line moves from run to run."""


@dataclass(frozen=True)
class AmongLines(Reason):
    """line: that differs, among lines that come and go."""

    line: Reason


@dataclass(frozen=True)
class NotSeenAgain(Reason):
    """What it prints differs, and the run that would show whether that moves did not end. how: it ended."""

    how: str


@dataclass(frozen=True)
class MadeByValuesUnknown(Reason):
    """Whether the values of its calls make what it prints is not known."""

    why: Reason


# -- what its runs show -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DivergesAt(Reason):
    """where: the place and how it differs there."""

    where: Reason


@dataclass(frozen=True)
class CannotTell(Reason):
    """Nothing that was seen diverges for certain, and something was not seen."""

    why: Reason


@dataclass(frozen=True)
class NotKnownSteady(Reason):
    """It diverges, and whether it would again is not known."""

    diverges: DivergesAt
    why: Reason


@dataclass(frozen=True)
class NoSecondRun(Reason):
    """No second run was made."""


@dataclass(frozen=True)
class TwoRunsDiffer(Reason):
    """Two runs with compilation off differ."""

    how: Reason


@dataclass(frozen=True)
class NotByUnsteadiness(Reason):
    """Two runs with compilation off differ, and what is wrong does not come of that."""

    wrong: Reason
    unsteady: TwoRunsDiffer


@dataclass(frozen=True)
class SteadyBesides(Reason):
    """Two runs with compilation off differ, and something else differs compiled each time. steady: what."""

    steady: Reason
    unsteady: TwoRunsDiffer


@dataclass(frozen=True)
class AsksCompiling(Reason):
    """It asks whether it is compiled and does something else then."""


@dataclass(frozen=True)
class ScriptDrawsOthers(Reason):
    """It agrees where compiled draws from eager's random streams. settings: that make it draw from these."""

    settings: tuple[str, ...]


@dataclass(frozen=True)
class CallGivesNothing(Reason):
    """error: why the call that was looked at gives no values by itself."""

    error: str


@dataclass(frozen=True)
class SaysAlike(Reason):
    """printed: a line in which the script says that something is wrong, compiled or not."""

    printed: str


@dataclass(frozen=True)
class PlaceDiffers(Reason):
    """place: of a value that differs compiled, and not from run to run."""

    place: str


@dataclass(frozen=True)
class LineDiffers(Reason):
    """how: a printed line differs, in both runs."""

    how: Reason


# -- what was not seen --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoCallSeen(Reason):
    """No call of what the script compiles was seen."""


@dataclass(frozen=True)
class RecordedAgree(Reason):
    """The calls that were looked at agree."""


@dataclass(frozen=True)
class FailsInEager(Reason):
    """Its own comparison fails although every graph ran in eager."""


@dataclass(frozen=True)
class LaterCallsUnseen(Reason):
    """calls: how many later ones of the same graphs were not looked at."""

    calls: int


@dataclass(frozen=True)
class CutShort(Reason):
    """how: it ended while its calls were recorded."""

    how: str


# -- scripts that differ from themselves --------------------------------------------------------------------


@dataclass(frozen=True)
class ComparisonsFail(Reason):
    """failed: how many of its own comparisons fail with compilation off too."""

    failed: int


@dataclass(frozen=True)
class EndsAlike(Reason):
    """ended: the exception that it ends with, with compilation off too."""

    ended: str


@dataclass(frozen=True)
class StatusAlike(Reason):
    """status: that it ends with, with compilation off too."""

    status: int


@dataclass(frozen=True)
class CallLeaves(Reason):
    """A call does something that the next one meets. names: of the tensors that it does so to, if to any."""

    call: CallName
    does: EffectKind
    names: tuple[str, ...]


@dataclass(frozen=True)
class PassesPutBack(Reason):
    """The script passes where what a call leaves behind is put back before each call."""

    leaves: CallLeaves


@dataclass(frozen=True)
class SidesDiffer(Reason):
    """Why its two sides differ was not found. tried: what was put back, and does not explain it."""

    tried: tuple[CallLeaves, ...]


# -- which is right -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RightUnknown(Reason):
    """Which of the two runs is right is not known. layer: what the first rung says."""

    layer: Reason
    why: Reason


@dataclass(frozen=True)
class OnEqualInputs(Reason):
    """call: that gives something else on equal inputs, None where it is the one that diverges. found: how."""

    call: CallName | None
    found: Reason


@dataclass(frozen=True)
class MoreThanRounding(Reason):
    """It is more than rounding explains."""


@dataclass(frozen=True)
class SuddenlyOff(Reason):
    """No call before differs in a bit, and eager's own kernels, which round alike, show it."""


@dataclass(frozen=True)
class RoundsAlike(Reason):
    """It is as small as rounding makes it, and eager's own kernels, which round alike, show it."""


# -- what eager gives on equal inputs, where that is not known -----------------------------------------------


@dataclass(frozen=True)
class EagerNotBeside(Reason):
    """Eager was not run on the inputs that the compiled calls had."""


@dataclass(frozen=True)
class CallNotReached(Reason):
    """With eager run beside it the script did not come to the call that diverges."""


@dataclass(frozen=True)
class AgreesBeside(Reason):
    """With eager run beside it the script does not diverge at that call."""


@dataclass(frozen=True)
class UnseenAt(Reason):
    """call: at which not all could be compared."""

    call: CallName
    why: Reason


@dataclass(frozen=True)
class RaisesThere(Reason):
    """The call raises, and gives nothing to compare."""


@dataclass(frozen=True)
class UnlikeAgain(Reason):
    """call: that gives something else in eager when it is run again."""

    call: CallName


@dataclass(frozen=True)
class OneSided(Reason):
    """In so many calls the output at path is larger than eager's on equal inputs, or smaller in all."""

    calls: int
    path: str
    larger: bool


@dataclass(frozen=True)
class NotByRounding(Reason):
    """Eager whose operations are moved by rounding does not do as the script does compiled."""


# -- the first rung that shows it ---------------------------------------------------------------------------


@dataclass(frozen=True)
class DynamoShows(Reason):
    """Dynamo's graphs, run op by op, already show it."""


@dataclass(frozen=True)
class AutogradShows(Reason):
    """AOTAutograd alone shows it."""


@dataclass(frozen=True)
class LosesTangents(Reason):
    """A kernel that Inductor makes carries no tangents, and forward-mode differentiation is lost."""


@dataclass(frozen=True)
class BetweenCalls(Reason):
    """No captured call diverges by itself."""


# -- what carries it from call to call ----------------------------------------------------------------------


@dataclass(frozen=True)
class AddsUp(Reason):
    """Small differences add up from call to call, and rounding makes the same of them."""


@dataclass(frozen=True)
class HangsOnTime(Reason):
    """What a call is given hangs on how long earlier calls take."""


@dataclass(frozen=True)
class OtherwiseLaid(Reason):
    """What a call gives lies otherwise in memory, and that makes the difference."""


@dataclass(frozen=True)
class GivenOtherwise(Reason):
    """A call is given something else than compiled though each call before gives what it gave compiled. at:
    what it is given otherwise."""

    call: CallName
    at: str


@dataclass(frozen=True)
class NotFollowed(Reason):
    """It was not followed from call to call."""


@dataclass(frozen=True)
class CallNotMet(Reason):
    """Where each call gives what it gave compiled the script does not come to the call that diverges."""


@dataclass(frozen=True)
class EndNotMet(Reason):
    """Where each call gives what it gave compiled the script does not come to its end. how: it ended."""

    how: str


@dataclass(frozen=True)
class CannotStand(Reason):
    """call: from 1, of which what it gave compiled cannot stand in the place of eager's."""

    call: int


# -- what carries it to what the script says outside its calls ----------------------------------------------


@dataclass(frozen=True)
class SaysGrown(Reason):
    """Small differences of the values of its calls make it say something else, and rounding does too."""


@dataclass(frozen=True)
class SaysByTime(Reason):
    """What it says hangs on how long its calls take."""


@dataclass(frozen=True)
class SaysByNeither(Reason):
    """Neither values nor strides nor time make it say something else."""


@dataclass(frozen=True)
class SaysAtTimes(Reason):
    """All values of its calls are bit-equal, and with compilation off it says the same at times."""
