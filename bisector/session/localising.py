"""A small part of a large graph that diverges alike, found from the trace before anything is searched."""

from __future__ import annotations

from itertools import islice

from bisector.core.case import WHOLE, Case
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.reduction.regions import regions
from bisector.core.search.minimal import MinimalSet
from bisector.core.trace import NodeTrace, Trace

from .following import followable
from .grouping import PLACE
from .study import Study


def diverging_region(study: Study, trace: Trace, default: ProbeResult) -> tuple[Case, ProbeResult] | None:
    """The first guess that diverges, with its default compile; None where none does.

    That it is the same bug is not known yet: what repairs it must be tried on the whole.
    """

    def tolerated(dtype: str | None) -> float:
        return study.small.tolerance("", dtype or "")[0]

    guesses = regions(study.describe(WHOLE), trace, followable(default), tolerated)
    while batch := list(islice(guesses, study.lab.jobs)):
        results = study.probe_all([(Candidate(), case) for case in batch])
        for case, result in zip(batch, results, strict=True):
            if result.outcome is Outcome.FAIL:
                return case, result
    return None


def place_repair(
    study: Study, origin: NodeTrace | None, case: Case, default: ProbeResult
) -> MinimalSet | None:
    """The ATen kernel for the node where the difference arises, if that repairs the case, which diverges.

    One probe; a repair by the finest decisions would take dozens.
    """
    decisions = default.measurement.decisions
    places = [d.id for d in decisions if d.kind == PLACE and origin is not None and d.node == origin.name]
    if len(places) != 1 or study.denied(frozenset(places), case).outcome is not Outcome.PASS:
        return None
    return MinimalSet(tuple(places), Outcome.PASS, (Outcome.FAIL,))
