"""The last word is the script's: the user's own file, run plainly under the best fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bisector.core.criterion import Criterion
from bisector.core.fix_source import PlainFix, UseBackend
from bisector.core.judge import BudgetSpent
from bisector.core.model import Outcome
from bisector.core.program import PlainRun, ScriptResult

from .answer import Answer, UnderFix
from .fixes import Fix
from .reproducing import MOST_FIXES
from .run import Session
from .witness import script_of

NO_CALL = "no call of what it compiles was seen"


def with_last_word(session: Session, answer: Answer, criterion: Criterion) -> Answer:
    """The answer with what the script shows under the best fix that mends it; under the best of all where
    none does. A fix under which the script still diverges is not confirmed, unless another call diverges for
    a cause of its own."""
    try:
        tried = list(_tried(session, answer, criterion))
    except BudgetSpent as spent:
        return replace(answer, stopped_because=spent.reason)
    if not tried:
        return answer
    found = next((one for one in tried if one.outcome is Outcome.PASS), tried[0])
    refuted = {one.fix for one in tried if one.outcome is Outcome.FAIL}
    if answer.others_differ:
        refuted = set()
    fixes = tuple((fix, ok and fix.id not in refuted) for fix, ok in answer.fixes)
    return replace(answer, fixes=fixes, script=found)


def _tried(session: Session, answer: Answer, criterion: Criterion) -> Iterator[UnderFix]:
    """One fix after the other, up to the first under which the script agrees."""
    program = script_of(session)
    for fix, plain in _expressible(answer)[:MOST_FIXES]:
        if (reason := session.clock.exhausted()) is not None:
            raise BudgetSpent(reason)
        shown, run = program.under(plain, criterion)
        found = _under(fix, shown, run)
        session.progress("script", f"with {fix.id} the script itself: {found.reason or 'agrees with eager'}")
        yield found
        if found.outcome is Outcome.PASS:
            return


def _expressible(answer: Answer) -> list[tuple[Fix, PlainFix]]:
    """The confirmed fixes that plain torch can express and that go on compiling, best first."""
    fixes = [(fix, fix.plain) for fix, confirmed in answer.fixes if confirmed]
    return [(fix, plain) for fix, plain in fixes if plain is not None and not isinstance(plain, UseBackend)]


def _under(fix: Fix, shown: ScriptResult, run: PlainRun) -> UnderFix:
    if shown.outcome is Outcome.PASS and not run.calls:
        return UnderFix(fix.id, Outcome.UNRESOLVED, NO_CALL, 0)
    return UnderFix(fix.id, shown.outcome, shown.reason, sum(run.agreed) if all(run.agreed) else 0)
