"""Why a run, or a part of one, ends with less than was asked for, as values; their words stand in
report/endings.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from .outcome import Outcome
from .reasons import Reason


@dataclass(frozen=True)
class Ending(Reason):
    """Why there is no more; its words stand in report/endings.py."""


@dataclass(frozen=True)
class SecondsSpent(Ending):
    """seconds: the budget."""

    seconds: float


@dataclass(frozen=True)
class QuestionsSpent(Ending):
    """questions: so many the search for decisions may ask."""

    questions: int


@dataclass(frozen=True)
class SetsReached(Ending):
    """limit: of the sets that are looked for."""

    limit: int


@dataclass(frozen=True)
class Interrupted(Ending):
    """By the user."""


@dataclass(frozen=True)
class EndedByError(Ending):
    """text: what an error says."""

    text: str


# -- a second process ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtherInputs(Ending):
    """A second run of the script gave other inputs."""


@dataclass(frozen=True)
class OtherGraph(Ending):
    """A second run of the script gave another graph, or other settings."""


@dataclass(frozen=True)
class AgreesThere(Ending):
    """Eager and compiled agree in the second process."""


@dataclass(frozen=True)
class SetsDoNotHold(Ending):
    """number: of the sets that were found."""

    number: int


@dataclass(frozen=True)
class Unconfirmed(Ending):
    """why: a second process does not show it."""

    why: Ending


# -- two configurations -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnotherOutcome(Ending):
    """Of the target as it is, or with the settings named."""

    settings: str | None
    outcome: Outcome
    wanted: Outcome


@dataclass(frozen=True)
class SetsNothing(Ending):
    """settings: those named, which are the target's own."""

    settings: str


@dataclass(frozen=True)
class NoContrast(Ending):
    """The target as it is and with the settings named gives these outcomes."""

    settings: str
    here: Outcome
    there: Outcome


# -- builds of torch, and compilers -------------------------------------------------------------------------


@dataclass(frozen=True)
class BothAlike(Ending):
    """Both ends have this outcome. older: whether another older one is to be named."""

    before: str
    after: str
    outcome: Outcome
    older: bool


@dataclass(frozen=True)
class EndUnknown(Ending):
    """name: of a build that was to be an end."""

    name: str
    reason: str


@dataclass(frozen=True)
class NothingBefore(Ending):
    """The later end has the outcome of what would be before a change."""

    name: str
    outcome: Outcome


@dataclass(frozen=True)
class NoOlderTells(Ending):
    """No release before this one could tell."""

    name: str


@dataclass(frozen=True)
class AsFarBack(Ending):
    """name: the oldest that diverges. is_oldest: there is none before; else what is older cannot tell."""

    name: str
    is_oldest: bool


@dataclass(frozen=True)
class AnotherAnswer(Ending):
    """names: of builds that gave another answer the second time."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AllAlike(Ending):
    """Each of the compilers has this outcome."""

    outcome: Outcome


@dataclass(frozen=True)
class CompilerUnknown(Ending):
    """name: of a compiler that cannot tell."""

    name: str
    reason: str


# -- fresh processes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unproved(Reason):
    """What a fresh process did not show, so that nothing is confirmed. Words: report/reasons.py."""


@dataclass(frozen=True)
class NotInSecondProcess(Unproved):
    """why: the second process could confirm nothing."""

    why: Reason


@dataclass(frozen=True)
class ReprosAgree(Unproved):
    """No repro that was tried diverges in plain Python. untried: why the script itself was not tried as one,
    None where it was, or is none."""

    untried: Ending | None


@dataclass(frozen=True)
class ScriptStillDiverges(Unproved):
    """fix: the ID of that under which the script itself still diverges."""

    fix: str
    why: Reason
