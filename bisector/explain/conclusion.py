"""From what repairs to what is reported: the fixes in their order, and the minimal case with its notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bisector.core.answer import Preflight
from bisector.core.backends import INDUCTOR
from bisector.core.budget import BudgetSpent
from bisector.core.case import Case
from bisector.core.confirmed import Confirmed
from bisector.core.fix import Conclusion
from bisector.core.flags import FlagWalk
from bisector.core.graphinfo import Axis, GraphInfo
from bisector.core.notes import Note
from bisector.core.reduction.script import compiled_alone
from bisector.core.script_text import program_lines, without
from bisector.core.search_notes import (
    AllElementsNeeded,
    Dimension,
    DivergesBeforeInductor,
    InputsReplaced,
    SizeNotTried,
    SmallerCaseNotFollowed,
    StatementsLeftOut,
)
from bisector.core.smaller import Reduced

from . import fixes
from .divergence import DivergingScript
from .study import Study


def conclude_script(script: DivergingScript, case: Case, walk: FlagWalk, confirmed: Confirmed) -> Conclusion:
    """The conclusions for a whole script. Its repro and its last word run it under the fixes: none is tried
    here."""
    by_denial = fixes.from_repairs(confirmed.held, script.source)
    ranked = fixes.ranked([*fixes.from_flags(walk), *by_denial])
    smaller = compiled_alone(script.default, case) if case.calls else []
    if case.left_out:
        whole = script.source
        left = without(whole, case.left_out)
        smaller = [*smaller, StatementsLeftOut(program_lines(left), program_lines(whole))]
    return Conclusion(fixes.with_proof(ranked, walk, confirmed), None, tuple(smaller))


def conclude_call(
    study: Study,
    case: Case,
    preflight: Preflight,
    walk: FlagWalk,
    confirmed: Confirmed,
    proved: frozenset[str],
    reductions: Sequence[Reduced],
) -> Conclusion:
    """The conclusions for a call, its fixes tried in plain torch and on other inputs.

    proved: kinds of decision in confirmed sets. reductions: all that led to the case, in order.
    """
    flags, denials, stopped = fixes.from_flags(walk), fixes.from_repairs(confirmed.held), None
    by_denial = [replace(fix, plain=None) for fix in denials]  # where a budget ends before a line is tried
    try:
        by_denial = fixes.in_plain_torch(study, denials)
        flags = fixes.on_other_inputs(study, flags, fixes.MOST_TRIED, proved)
    except BudgetSpent as spent:
        stopped = spent.reason
    notes: list[Note] = []
    first = preflight.first_bad_backend
    if not (flags or by_denial) and first not in (None, INDUCTOR):
        notes.append(DivergesBeforeInductor(first))
    ranked = fixes.ranked([*flags, *by_denial, *fixes.from_backends(preflight.agreeing)])
    also_seen = {seen.what: seen.case for reduced in reductions for seen in reduced.also_seen}
    uncut = reductions[-1].uncut if reductions else {}
    notes += remarks(study, case, uncut, also_seen)
    with_proof = fixes.with_proof(ranked, walk, confirmed)
    return Conclusion(with_proof, study.describe(case), tuple(notes), stopped)


AT_A_GLANCE = 64  # elements; for inputs with more a note gives the reason


def remarks(
    study: Study, case: Case, uncut: Mapping[Axis, int], also_seen: Mapping[Note, Case]
) -> list[Note]:
    """Notes on the case. uncut: `Problem.uncut`; also_seen: smaller cases that diverge otherwise."""
    notes: list[Note] = [InputsReplaced()] if case.has_own_values else []
    notes += why_large(study.describe(case), uncut)
    for what, other in also_seen.items():
        notes.append(SmallerCaseNotFollowed(tuple(study.describe(other).aten), what))
    return notes


def why_large(info: GraphInfo, uncut: Mapping[Axis, int]) -> list[Note]:
    """A note where the inputs are more than a reader takes in at a glance."""
    if info.elements <= AT_A_GLANCE:
        return []
    needed = [axis for axis, size in info.axes.items() if uncut.get(axis) == size]
    if not needed:
        return [SizeNotTried(info.elements)]
    along = tuple(Dimension(name, dim, info.length(name, dim)) for name, dim in needed)
    return [AllElementsNeeded(info.elements, along)]
