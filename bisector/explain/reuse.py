"""Why a call of a script that runs what an earlier call compiled gives something else than eager: asked where
that is a confirmed cause, or part of what repairs."""

from __future__ import annotations

from bisector.core.case import Case
from bisector.core.confirmed import Confirmed
from bisector.core.kinds import GUARD
from bisector.core.protocol import ExplainReuse, Failed
from bisector.core.reuse import Reuse

from .study import Study

MOST_CALLS = 4  # the first ones; later calls mostly have the same reason


def explain_reuse(study: Study, case: Case, confirmed: Confirmed) -> tuple[Reuse, ...]:
    """case: the one that was searched. One run of the script tells it of all calls."""
    sets = [found for found, proved in confirmed.causes if proved]
    sets += [repair.found for repair in confirmed.repairs if repair.confirmed]
    members = {member for found in sets for member in found.members if member.kind == GUARD.name}
    numbers = sorted({int(member.node.removeprefix("call")) for member in members})
    if not numbers or study.exhausted() is not None:
        return ()
    asked = ExplainReuse(study.about(case), tuple(numbers[:MOST_CALLS]), study.criterion)
    found = study.lab.ask(asked)
    return () if isinstance(found, Failed) else found.calls
