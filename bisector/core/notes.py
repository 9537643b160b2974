"""What the stages notice beside their results: of the calls and runs that a verdict is about, in this module;
of the search and what comes of it, in search_notes.py. The words of both stand in report/notes.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .outcome import Outcome
from .reasons import Reason


@dataclass(frozen=True)
class Note:
    """Something that a stage noticed and that the report says; its words stand in report/notes.py."""


@dataclass(frozen=True)
class Reported(Note):
    """What the worker, or a probe, says."""

    why: Reason


# -- the evidence of a call ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoReference(Note):
    """No float64 reference was made."""

    why: str


@dataclass(frozen=True)
class HeldAtItsSize(Note):
    """Values smaller than the default absolute tolerance are off. name: of an output, or of a dtype.
    tolerance: the absolute one that it is held to."""

    name: str
    tolerance: float


@dataclass(frozen=True)
class SeveralTolerances(Note):
    """The script compares an output more than once. tolerances: each with rtol and atol, those of the repro
    first."""

    path: str
    tolerances: tuple[tuple[float, float], ...]


# -- which call is examined ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallName:
    """number: its place among the calls, from 1."""

    number: int
    entry: str


@dataclass(frozen=True)
class OneOfSeveralCalls(Note):
    """made, recorded: how many calls of compiled graphs. first: that diverges, None where it is this one."""

    made: int
    recorded: int
    examined: CallName
    first: CallName | None


class Relation(enum.Enum):
    """Of the cause of another call to the one that was explained."""

    SAME = "same"
    ANOTHER = "another"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class AlsoDiverges:
    """A call that diverges, other than the one that was explained. number: from 1, as `--call` takes it."""

    number: int
    entry: str
    reason: Reason
    cause: Relation


@dataclass(frozen=True)
class OtherCallDiverges(Note):
    """every: each call that diverges is explained (`--all`)."""

    call: AlsoDiverges
    every: bool


@dataclass(frozen=True)
class ScriptEnded(Note):
    """The script ended while its calls were recorded."""

    how: str


@dataclass(frozen=True)
class NoGraph(Note):
    """No compiled call comes to a graph."""


@dataclass(frozen=True)
class DrawnAlike(Note):
    """The random numbers of the program differ, and what is examined is what differs beneath."""


# -- other seeds --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AgreesWithSeeds(Note):
    """Beside the seed of the run."""

    seeds: tuple[int, int]


@dataclass(frozen=True)
class UnjudgedWithSeed(Note):
    seed: int


@dataclass(frozen=True)
class DivergesWithSomeSeeds(Note):
    """seeds: all that were tried. diverging: how many of them diverge. examined: that of this run."""

    diverging: int
    seeds: tuple[int, ...]
    examined: int


# -- backends -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackendUnjudged(Note):
    """The first backend that diverges is not known, since this one, or one before it, may."""

    backend: str


@dataclass(frozen=True)
class NoBackendDiverges(Note):
    """None that was tried shows the divergence."""


# -- runs that differ from each other, or from a run in a fork ----------------------------------------------


@dataclass(frozen=True)
class VariationNotSought(Note):
    """Where runs of the compiled program begin to differ was not looked for."""

    why: Reason


@dataclass(frozen=True)
class VariationUnknown(Note):
    """Where runs of the compiled program begin to differ is not known."""

    why: str


@dataclass(frozen=True)
class VariesFrom(Note):
    """The first node with other values from run to run. where: the user's file:line, "" where not known."""

    node: str
    where: str


@dataclass(frozen=True)
class AlikeWith(Note):
    """All runs are equal under a setting. outcome: of them against eager."""

    setting: str
    value: int | bool
    outcome: Outcome


@dataclass(frozen=True)
class NothingMakesAlike(Note):
    """tried: the settings."""

    tried: tuple[str, ...]


@dataclass(frozen=True)
class NotShownInFork(Note):
    """A run of the script in a fork of a warm process does not diverge. died: it ended without values."""

    died: bool
    why: Reason


# -- what ended the run, or was not asked -------------------------------------------------------------------


@dataclass(frozen=True)
class KnownCause(Note):
    """The cause is one that other failures have too. key: of it."""

    key: str


@dataclass(frozen=True)
class NoBuildAsked(Note):
    why: str


@dataclass(frozen=True)
class CommitUnknown(Note):
    """Which commit between two builds it is was not found."""

    why: Reason


@dataclass(frozen=True)
class CommitInBinary(Note):
    """The later Python over the earlier binary agrees."""


@dataclass(frozen=True)
class UncommittedLeftOut(Note):
    """The clone has changes that no commit has."""
