"""Whether a failure has a cause that is known already: two probes, where a full run takes a hundred."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.case import WHOLE
from bisector.core.clusters import Cause
from bisector.core.model import Candidate, Measurement, Outcome, kind_of

from ..grouping import PLACE
from ..study import Study


def belongs_to(study: Study, default: Measurement, known: Sequence[Cause]) -> Cause | None:
    """The first known cause that is confirmed here: without its decisions the outputs agree, and with these
    alone, over the plain baseline, they diverge. default: the default compile, with its decisions."""
    decisions = [d.id for d in default.decisions if d.kind not in study.hooks_off]
    return next((cause for cause in known if _confirmed(study, decisions, cause)), None)


def _confirmed(study: Study, decisions: Sequence[str], cause: Cause) -> bool:
    if not cause.repair and not cause.cause:
        fixed = study.probe(Candidate.with_flags(dict(cause.flags)))
        return fixed.outcome is Outcome.PASS
    asked = []
    if cause.repair:
        if not (denied := cause.denied(decisions)):
            return False
        asked.append((study.deny(denied), Outcome.PASS))
    if cause.cause:
        if not (enabled := cause.enabled(decisions)):
            return False
        formulas = [d for d in enabled if kind_of(d) == PLACE]  # on in the plain baseline, as it is
        asked.append((study.plain(enabled, formulas), Outcome.FAIL))
    # One after the other: most known causes are refuted by the first.
    return all(study.probe(candidate, WHOLE).outcome is wanted for candidate, wanted in asked)
