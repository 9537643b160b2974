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
from bisector.core.reduction.script import compiled_alone_notes
from bisector.core.smaller import Reduced

from . import fixes
from .divergence import DivergingScript
from .study import Study


def conclude_script(script: DivergingScript, case: Case, walk: FlagWalk, confirmed: Confirmed) -> Conclusion:
    """The conclusions for a whole script. Its repro and its last word run it under the fixes: none is tried
    here."""
    by_denial = fixes.from_repairs(confirmed.held, script.source)
    ranked = fixes.ranked([*fixes.from_flags(walk), *by_denial])
    smaller = compiled_alone_notes(script.default, case) if case.calls else []
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
    notes = []
    if not (flags or by_denial) and preflight.first_bad_backend not in (None, INDUCTOR):
        notes.append(
            f"{preflight.first_bad_backend} diverges already, and no decision that numbisect knows repairs it"
        )
    ranked = fixes.ranked([*flags, *by_denial, *fixes.from_backends(preflight.agreeing)])
    also_seen = {seen.what: seen.case for reduced in reductions for seen in reduced.also_seen}
    uncut = reductions[-1].uncut if reductions else {}
    notes += remarks(study, case, uncut, also_seen)
    with_proof = fixes.with_proof(ranked, walk, confirmed)
    return Conclusion(with_proof, study.describe(case), tuple(notes), stopped)


AT_A_GLANCE = 64  # elements; for inputs with more a note gives the reason


def remarks(study: Study, case: Case, uncut: Mapping[Axis, int], also_seen: Mapping[str, Case]) -> list[str]:
    """Notes on the case. uncut: `Problem.uncut`; also_seen: smaller cases that diverge otherwise."""
    notes = []
    if case.has_own_values:
        notes.append(
            "the inputs of the minimal case are not the script's own: some were multiplied, cast or given "
            "plainer values, with which a case this small diverges alike"
        )
    notes += why_large(study.describe(case), uncut)
    for what, other in also_seen.items():
        ops = ", ".join(study.describe(other).aten)
        notes.append(f"a smaller case ({ops}) was not followed: {what}")
    return notes


def why_large(info: GraphInfo, uncut: Mapping[Axis, int]) -> list[str]:
    """A note where the inputs are more than a reader takes in at a glance."""
    if info.elements <= AT_A_GLANCE:
        return []
    needed = [axis for axis, size in info.axes.items() if uncut.get(axis) == size]
    if not needed:
        return [f"the inputs have {info.elements} elements; a smaller size was not tried"]
    axes = ", ".join(f"dimension {dim} of `{name}` ({info.length(name, dim)})" for name, dim in needed)
    return [
        f"the inputs have {info.elements} elements: in all smaller cases that were tried, with less along "
        f"{axes}, compiled agrees with eager or differs in another way"
    ]
