"""Why a call of a script that runs what an earlier call compiled gives something else than eager: asked where
that is a confirmed cause, or part of what repairs."""

from __future__ import annotations

from bisector.core.case import Case
from bisector.core.confirmed import Confirmed
from bisector.core.kinds import CACHE, GUARD
from bisector.core.protocol import ExplainReuse, Failed
from bisector.core.reduction.script import diverging_calls
from bisector.core.reuse import Reuse

from .study import Study

# The first one: later calls mostly have the same reason, and what eager leaves in objects of an earlier state
# is not put back before them.
MOST_CALLS = 1


def explain_reuse(study: Study, case: Case, confirmed: Confirmed) -> tuple[Reuse, ...]:
    """case: the one that was searched. One run of the script, which ends behind the call."""
    sets = (*confirmed.proved_causes, *confirmed.proved_repairs)
    members = {member for found in sets for member in found.members}
    guards = (member for member in members if member.kind == GUARD.name)
    numbers = sorted({int(member.node.removeprefix("call")) for member in guards})
    if any(member.kind == CACHE.name for member in members):
        numbers += [int(place) + 1 for place in diverging_calls(study.signatures)]
    if not numbers or study.exhausted() is not None:
        return ()
    asked = ExplainReuse(study.about(case), tuple(numbers[:MOST_CALLS]), study.criterion)
    found = study.lab.ask(asked)
    return () if isinstance(found, Failed) else found.calls
