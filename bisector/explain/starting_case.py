"""The case that a search begins with: the whole, a region of a large graph, or a part of large inputs."""

from __future__ import annotations

from collections.abc import Mapping

from bisector.core.case import WHOLE, Case
from bisector.core.decision import DecisionId
from bisector.core.followed import Followed
from bisector.core.mechanism import Found
from bisector.core.model import Candidate, ProbeResult
from bisector.core.notes import Note
from bisector.core.outcome import Outcome
from bisector.core.recorded import MANY_ELEMENTS, SEARCHED_WHOLE, RecordedCall
from bisector.core.reduction.inputs import take_part
from bisector.core.reduction.reduce import narrow, reduce_graph
from bisector.core.reduction.regions import regions
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import (
    DecisionsOfTheScript,
    GraphsRefuted,
    PartRefuted,
    SearchedAtOperation,
    SearchedInRegion,
    SearchedOnPart,
)
from bisector.core.smaller import Anchor, Reduced, Scope, Start
from bisector.core.trace import NodeTrace, Trace
from bisector.core.verdict import VerdictClass

from .localisation import followable
from .reduction import reduce_case
from .rounds import in_rounds
from .search_order import PLACE
from .study import Study

# By what the search began with, where no flag that repairs that repairs the whole.
REFUTED_ON_WHOLE: Mapping[Scope, tuple[Note, ...]] = {
    Scope.PART: (PartRefuted(),),
    Scope.GRAPHS: (DecisionsOfTheScript(), GraphsRefuted()),
}


def region_of(
    study: Study, call: RecordedCall, followed: Followed, default: ProbeResult, verdict: VerdictClass
) -> Start:
    """A part of a large graph that diverges in the same way and has few calls; the whole where none is found.

    A probe of the whole takes seconds there; all but a few are about the region. That it is the same bug is
    not known yet: what repairs it must be tried on the whole. default: the default compile of the whole.
    """
    reductions: list[Reduced] = []

    def reduced(found: Reduced) -> tuple[Case, ProbeResult]:
        reductions.append(found)
        return found.case, found.default

    traced = None if followed.trace is None else _diverging_region(study, followed.trace, default)
    case, small = traced or reduced(reduce_case(study, WHOLE, default, None, narrow))
    if len(study.describe(case).calls) > SEARCHED_WHOLE:
        repair = place_repair(study, followed.origin, case, small)
        anchor = Anchor((frozenset(repair.members),)) if repair is not None else None
        case, small = reduced(reduce_case(study, case, small, anchor, reduce_graph, verdict))
    calls = len(study.describe(case).calls)
    if calls > SEARCHED_WHOLE:
        return Start(WHOLE, default, reductions=tuple(reductions))
    return Start(case, small, Scope.REGION, tuple(reductions), (SearchedInRegion(calls, call.nodes),))


def at_operation(operation: str, found: Found) -> Start:
    """The part of the graph in which one of many operations differs to the bit."""
    return Start(found.case, found.default, Scope.REGION, (), (SearchedAtOperation(operation),))


def part_of(study: Study, call: RecordedCall, start: Start) -> Start:
    """Of millions of elements some that diverge in the same way; the same start where there are fewer."""
    elements = call.elements
    if start.scope is Scope.REGION:
        elements = study.describe(start.case).elements
    if elements <= MANY_ELEMENTS:
        return start
    found = reduce_case(study, start.case, start.default, None, take_part)
    note = SearchedOnPart(study.describe(found.case).elements, elements)
    scope = start.scope
    if scope is Scope.WHOLE and found.case != WHOLE:
        scope = Scope.PART
    return Start(found.case, found.default, scope, (*start.reductions, found), (*start.notes, note))


@in_rounds
def _diverging_region(study: Study, trace: Trace, default: ProbeResult) -> tuple[Case, ProbeResult] | None:
    """The first guess from the trace that diverges, with its default compile; None where none does."""
    guesses = regions(study.describe(WHOLE), trace, followable(default), study.tolerated)
    for case in guesses:
        result = study.probe(Candidate(), case)
        if result.outcome is Outcome.FAIL:
            return case, result
    return None


def place_repair(
    study: Study, origin: NodeTrace | None, case: Case, default: ProbeResult
) -> MinimalSet[DecisionId] | None:
    """The ATen kernel for the node where the difference arises, if that repairs the case, which diverges.

    One probe; a repair by the finest decisions would take dozens.
    """
    decisions = default.measurement.decisions
    places = [d.id for d in decisions if d.kind == PLACE and origin is not None and d.node == origin.name]
    if len(places) != 1 or study.denied(frozenset(places), case).outcome is not Outcome.PASS:
        return None
    return MinimalSet(tuple(places), Outcome.PASS, (Outcome.FAIL,))
