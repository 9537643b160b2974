"""What a fresh process did not show, so that nothing is confirmed; the words stand in report/unproved.py."""

from __future__ import annotations

from dataclasses import dataclass

from .endings import Ending
from .reasons import Reason


@dataclass(frozen=True)
class Unproved:
    """Its words stand in report/unproved.py."""


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
