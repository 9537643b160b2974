"""Which build turned a divergence on: the ends first, then down the ladder, then the last two once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bisector.builds.bounds import parse_bound
from bisector.builds.line import Line
from bisector.core.budget import BudgetSpent
from bisector.core.endings import (
    AnotherAnswer,
    AsFarBack,
    BothAlike,
    Ending,
    EndUnknown,
    NoOlderTells,
    NothingBefore,
)
from bisector.core.ladder import Bracket, Step, climb, walked_back
from bisector.core.options import FIXED, INTRODUCED, Question
from bisector.core.outcome import Outcome
from bisector.errors import BadOption

from .build_test import BuildTest

FOUND, NOTHING, UNCONFIRMED = 0, 1, 3  # exit statuses


@dataclass
class Found:
    """What the builds gave. bracket: None where there is no change, and `reason` says why there is none or
    why it is not confirmed."""

    status: int
    reason: Ending | None = None
    bracket: Bracket | None = None
    confirmed: bool = False
    steps: list[Step] = field(default_factory=list)


def bisect(question: Question, line: Line, asking: BuildTest) -> Found:
    """Raises BadOption for bounds that no index has, or that lie the wrong way round."""
    after = line.find(parse_bound(question.after))
    before = None if question.before is None else line.find(parse_bound(question.before))
    if before is not None:
        _check_order(question, line, before, after)
    found = Found(UNCONFIRMED)
    try:
        start = _start(question, line, asking, before, after)
        if isinstance(start, Found):
            return start
        found.bracket = start
        _descend(line, asking, found)
    except BudgetSpent as spent:
        found.reason = spent.reason
        return found
    return found


def _check_order(question: Question, line: Line, before: str, after: str) -> None:
    if line.is_older(before, after):
        return
    if question.looked_for == INTRODUCED:
        raise BadOption(f"--good {before} is not older than --bad {after}; to look for a fix: --find-fix")
    raise BadOption(f"--bad {before} is not older than --good {after}; --find-fix looks for a later fix")


def _start(
    question: Question, line: Line, asking: BuildTest, before: str | None, after: str
) -> Bracket | Found:
    """The two ends, both asked; a Found that is no bracket where there is nothing between them to find."""
    wanted = Outcome.PASS if question.looked_for == FIXED else Outcome.FAIL
    newer = asking.result(after)
    if newer.outcome is not wanted:
        return _no_change(after, newer.outcome, newer.reason)
    if before is None:
        return _walked_back(line, asking, after)
    older = asking.result(before)
    if older.outcome is wanted.inverted():
        return Bracket(before, after)
    if older.outcome is Outcome.UNRESOLVED:
        return _no_change(before, older.outcome, older.reason)
    return Found(NOTHING, BothAlike(before, after, wanted, older=question.looked_for == INTRODUCED))


def _no_change(name: str, outcome: Outcome, reason: str) -> Found:
    if outcome is Outcome.UNRESOLVED:
        return Found(UNCONFIRMED, EndUnknown(name, reason))
    return Found(NOTHING, NothingBefore(name, outcome))


def _walked_back(line: Line, asking: BuildTest, after: str) -> Bracket | Found:
    older = line.older(after)
    found = walked_back([*older, after], asking)
    if isinstance(found, Bracket):
        return found
    if found == after:
        return Found(UNCONFIRMED, NoOlderTells(after))
    return Found(NOTHING, AsFarBack(found, is_oldest=found == older[0]))


def _descend(line: Line, asking: BuildTest, found: Found) -> None:
    """Narrow the bracket rung by rung, and ask the two that are left once more."""
    assert found.bracket is not None
    for step in climb(line.rungs(), found.bracket, asking, asking.foresee):
        found.steps.append(step)
        found.bracket = step.bracket
    confirm(asking, found, [found.bracket.before, found.bracket.after])


def confirm(asking: BuildTest, found: Found, names: Sequence[str]) -> None:
    """Ask the builds that the answer names once more; one that says another thing takes it back."""
    unsteady = [name for name in names if asking.again(name) is not asking.tried[name].result.outcome]
    found.confirmed = not unsteady
    found.status = FOUND if found.confirmed else UNCONFIRMED
    if unsteady:
        found.reason = AnotherAnswer(tuple(unsteady))
