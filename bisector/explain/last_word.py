"""The last word is the script's: the user's own file, run plainly under the best fix."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bisector.core.answer import Answer
from bisector.core.criterion import Criterion
from bisector.core.fix import Fix, PlainFix, UseBackend
from bisector.core.outcome import Outcome
from bisector.core.program import PlainRun
from bisector.core.progress import ScriptUnderFix
from bisector.core.reasons import SILENT
from bisector.core.script_reasons import NoCallSeen
from bisector.core.script_tried import ScriptTried, UnderFix
from bisector.core.shown import CALL, ScriptResult, differing_places

from .repro import MOST_FIXES
from .run import Session
from .witness import script_of


class LastWord:
    """What the script itself shows under the fixes that were found. criterion: what the script is held to."""

    def __init__(self, session: Session, criterion: Criterion) -> None:
        self.session = session
        self.criterion = criterion
        self._script = script_of(session)

    def begin(self, answer: Answer) -> None:
        """Begin it in the background, under the fix that is the best by now; called again, go on with it."""
        best = _expressible(answer)[:1] if self.session.lab.jobs > 1 else []
        for _, plain in best:
            self._script.begin_under(plain)

    def ask(self, answer: Answer) -> ScriptTried:
        """Run it under the best fixes in turn, until one mends it."""
        found = ScriptTried()
        for fix, plain in _expressible(answer)[:MOST_FIXES]:
            if (reason := self.session.clock.exhausted()) is not None:
                return replace(found, stopped_because=reason)
            tried = self._under(fix, plain)
            self.session.progress("script", ScriptUnderFix(fix.id, tried.reason))
            found = ScriptTried((*found.fixes, tried))
            self.session.known = partial(answer.with_script, found)
            if tried.outcome is Outcome.PASS:
                break
        return found

    def _under(self, fix: Fix, plain: PlainFix) -> UnderFix:
        shown, run, eager = self._script.under(plain, self.criterion)
        if shown.outcome is Outcome.PASS and not run.calls:
            return UnderFix(fix.id, Outcome.UNRESOLVED, NoCallSeen(), 0)
        agreed = sum(run.agreed) if all(run.agreed) else 0
        own = self._script.own_difference(eager)
        mends_some = shown.diverges and self._mends_some(shown, run, eager)
        reason = None if shown.reason == SILENT else shown.reason
        return UnderFix(fix.id, shown.outcome, reason, agreed, own.reason if own else None, mends_some)

    def _mends_some(self, shown: ScriptResult, run: PlainRun, eager: PlainRun) -> bool:
        """Whether what still differs is a part of what differs without the fix; the script's own comparisons
        and its end are no part that may stay."""
        if shown.is_printed:
            return True
        now = differing_places(eager, run, self.criterion)
        before = differing_places(eager, self._script.compiled(), self.criterion)
        return now < before and all(path.startswith(CALL) for path in now)


def _expressible(answer: Answer) -> list[tuple[Fix, PlainFix]]:
    """The confirmed fixes that plain torch can express and that go on compiling, best first."""
    fixes = [(fix, fix.plain) for fix, confirmed in answer.fixes if confirmed]
    return [(fix, plain) for fix, plain in fixes if plain is not None and not isinstance(plain, UseBackend)]
