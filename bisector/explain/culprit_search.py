"""Which decisions do it: the search of both views on one case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bisector.core.budget import BudgetSpent
from bisector.core.case import Case
from bisector.core.confirmed import Decided
from bisector.core.contract import Breach, ContractCheck, check_causes, check_repairs
from bisector.core.decision import Decision, DecisionId
from bisector.core.judge import removed_fraction
from bisector.core.model import ProbeResult
from bisector.core.notes import Note
from bisector.core.outcome import Outcome
from bisector.core.search.graded import Graded, graded
from bisector.core.search.minimal import Inverted, Members, MinimalSet, minimal_set
from bisector.core.search.sets import SetsFound, all_sets, repairs_only
from bisector.core.search_notes import CausesUnsearched, RepairsUnsearched

from .questions import Allowance, Denied, Enabled, Formulas, new_decisions
from .rounds import in_rounds
from .search_order import NOBODY, PLACES, SEPARATED, Suspects, by_groups, ordered
from .study import Study, config_id

# More sets than this of either view are no longer an answer; the result says that the search stopped.
MOST_SETS = 8
# Where many decisions each suffice, the sets grow without end; what one allowance finds is reported.
MOST_PROBES = 100


@in_rounds
def decide(
    study: Study, case: Case, default: ProbeResult, flags: Sequence[str], suspects: Suspects = NOBODY
) -> Decided:
    """Search causes and repairs among the decisions of this case's default compile, and those that appear
    when others are denied.

    flags: those that repair, alone or together. They stand in as decisions of kind `config` where the
    finer kinds leave the plain baseline diverging.
    """
    decisions = tuple(d for d in default.measurement.decisions if d.kind not in study.hooks_off)
    elements = ordered(d.id for d in decisions if d.kind not in PLACES)
    found = Decided(case, decisions)
    try:
        needed = needed_with(study, case, elements, flags, suspects.arising)
        found = replace(found, also_denied=tuple(needed))
        everything = [*elements, *found.also_denied]
        denied, grown = with_appeared(study, case, everything)
        found = replace(found, decisions=(*decisions, *grown))
        repairs = check_repairs(default, denied)
        causes = _plain_end(study, case, everything, found.also_denied)
        study.lab.settle()  # they decide what is searched for
        found = _search(study, everything, causes, repairs, found, suspects.sets(everything))
        if not found.places:
            shared = worth_grading(found.sets.repairs, everything)
            shares = grade(study, case, default, shared, repairs=bool(found.sets.repairs))
            found = replace(found, graded=shares)
    except BudgetSpent as spent:
        stopped = found.sets.stopped_because or spent.reason
        found = replace(found, sets=replace(found.sets, stopped_because=stopped))
    return found


def _plain_end(
    study: Study, case: Case, everything: Sequence[DecisionId], also_denied: Sequence[DecisionId]
) -> ContractCheck:
    plain = study.enabled(frozenset(), case, also_denied)
    return check_causes(plain, study.enabled(frozenset(everything), case, also_denied))


def _search(
    study: Study,
    everything: list[DecisionId],
    causes: ContractCheck,
    repairs: ContractCheck,
    found: Decided,
    likely: Sequence[Members[DecisionId]],
) -> Decided:
    """`found` with the sets, the places and what did not hold."""
    allowance = Allowance(MOST_PROBES)
    denied = Denied(study, found.case, allowance, found.decisions)
    enabled = Enabled(study, found.case, allowance, found.also_denied)
    checks = _unsearched(causes, repairs)
    sets, places = SetsFound[DecisionId](), tuple[DecisionId, ...]()
    try:
        if causes.holds and repairs.holds:
            sets = all_sets(everything, enabled, denied, MOST_SETS, likely, denied.appeared)
            if not sets.repairs:
                # Too many causes for one allowance: a repair says more than the causes left out.
                sets = replace(sets, repairs=_first_repair(study, found.case, everything))
        elif repairs.holds:
            sets = repairs_only(everything, denied, MOST_SETS, likely, denied.appeared)
        else:
            if causes.holds:
                sets = SetsFound(causes=(minimal_set(everything, enabled, likely=likely),))
            if repairs.breach in (Breach.PLAIN_FAILS, Breach.PLAIN_UNRESOLVED):
                places = _places(study, found.case, found.decisions)
    except BudgetSpent as spent:
        sets = replace(sets, stopped_because=sets.stopped_because or spent.reason)
    decisions = (*found.decisions, *denied.grown.values())
    return replace(found, sets=sets, checks=checks, places=places, decisions=decisions)


def _unsearched(causes: ContractCheck, repairs: ContractCheck) -> tuple[Note, ...]:
    by_causes = CausesUnsearched(causes.breach, causes.reason) if causes.breach is not None else None
    by_repairs = RepairsUnsearched(repairs.breach, repairs.reason) if repairs.breach is not None else None
    return tuple(note for note in (by_causes, by_repairs) if note is not None)


def _first_repair(
    study: Study, case: Case, elements: Sequence[DecisionId]
) -> tuple[MinimalSet[DecisionId], ...]:
    return (by_groups(elements, Inverted(Denied(study, case))).inverted(),)


def _places(study: Study, case: Case, decisions: Sequence[Decision]) -> tuple[DecisionId, ...]:
    """The fallbacks that repair alone; else one minimal set of them, if all together do."""
    places = [d.id for d in decisions if d.kind in PLACES]
    results = study.probe_all([(study.deny(frozenset({p})), case) for p in places])
    alone = tuple(p for p, r in zip(places, results, strict=True) if r.outcome is Outcome.PASS)
    if alone or not places:
        return alone
    denied = study.denied(frozenset(places), case)
    # A compile that raises at a node lists none behind it: what was denied so far brings the next to light.
    while denied.outcome is Outcome.FAIL and (fresh := _further_places(denied, places)):
        places += fresh
        denied = study.denied(frozenset(places), case)
    if denied.outcome is not Outcome.PASS or len(places) < 2:
        return ()
    return by_groups(places, Inverted(Denied(study, case))).members


def _further_places(result: ProbeResult, known: Sequence[DecisionId]) -> list[DecisionId]:
    return [d.id for d in result.measurement.decisions if d.kind in PLACES and d.id not in known]


@in_rounds
def one_repair(
    study: Study, case: Case, default: ProbeResult, suspects: Suspects = NOBODY
) -> MinimalSet[DecisionId] | None:
    """One repair among all decisions, fallbacks included only if nothing finer repairs.

    First by groups (every `lower:aten.tanh`, say), then inside them if few are left: where a hundred equal
    layers each add their part, the group is the answer, and its members one by one would cost a day.
    """
    ids = ordered(d.id for d in default.measurement.decisions if d.kind not in study.hooks_off)
    fine = [i for i in ids if i.kind not in PLACES]
    for elements in (fine, ids):
        if elements and study.denied(frozenset(elements), case).outcome is Outcome.PASS:
            some = suspects.sets(elements)
            inside = next((s for s in some if study.denied(s, case).outcome is Outcome.PASS), elements)
            members = [e for e in elements if e in inside]
            return by_groups(members, Inverted(Denied(study, case))).inverted()
    return None


# Denying decisions can make others appear, and denying those again others; few rounds bring all to light.
MOST_ROUNDS = 3


def needed_with(
    study: Study,
    case: Case,
    elements: Sequence[DecisionId],
    flags: Sequence[str],
    arising: frozenset[str] = frozenset(),
) -> list[DecisionId]:
    """What must be denied with the elements, so that the plain baseline agrees: nothing in most cases.

    Else the flags, as decisions of kind `config`; else the fewest places that make it diverge: lowerings by
    their own formula, of a script the functions that Dynamo traces. Nothing, too, where none of these helps.

    arising: nodes where a difference arises, whose formulas are tried first.
    """
    members, nothing = frozenset(elements), frozenset[DecisionId]()
    # The other ends are asked next; together they take less time.
    ends = (study.plain(nothing, []), study.plain(members, []), study.deny(members))
    plain = study.probe_all([(end, case) for end in ends])[0]
    study.lab.settle()  # they decide what is searched for
    if plain.outcome is not Outcome.FAIL:
        return []
    config = [config_id(name) for name in flags]
    if config and study.enabled(nothing, case, config).outcome is Outcome.PASS:
        return config
    return _formulas(study, case, plain, arising) or config


def _formulas(
    study: Study, case: Case, plain: ProbeResult, arising: frozenset[str]
) -> list[DecisionId]:
    """Of the places in a plain baseline that diverges, a smallest set to deny so that it agrees."""
    places = [d.id for d in plain.measurement.decisions if d.kind in PLACES and d.kind not in study.hooks_off]
    if not places or study.enabled(frozenset(), case, places).outcome is not Outcome.PASS:
        return []
    likely = frozenset(place for place in places if place.node in arising)
    return list(by_groups(places, Inverted(Formulas(study, case)), likely).members)


def with_appeared(
    study: Study, case: Case, everything: list[DecisionId]
) -> tuple[ProbeResult, list[Decision]]:
    """Deny everything; while that still diverges, deny what only came up by it as well.

    `everything` grows by what appeared. Returns the last result, and those decisions.
    """
    grown: list[Decision] = []
    denied = study.denied(frozenset(everything), case)
    for _ in range(MOST_ROUNDS):
        fresh = new_decisions(study, denied, set(everything)) if denied.outcome is Outcome.FAIL else []
        if not fresh:
            break
        grown += fresh
        everything += ordered(d.id for d in fresh)
        denied = study.denied(frozenset(everything), case)
    return denied, grown


MOST_GRADED = 16  # decisions that are denied one by one: a probe each
LARGEST = 8  # shares that are reported


def worth_grading(
    repairs: Sequence[MinimalSet[DecisionId]], elements: Sequence[DecisionId]
) -> Sequence[DecisionId]:
    """The members of the smallest repair if it has several; without a repair, all elements if they are few;
    else nothing: one decision that repairs alone carries it all."""
    if repairs:
        smallest = min(repairs, key=lambda repair: len(repair.members)).members
        return smallest if len(smallest) > 1 else ()
    return elements if len(elements) <= MOST_GRADED else ()


def grade(
    study: Study, case: Case, default: ProbeResult, elements: Sequence[DecisionId], repairs: bool
) -> Graded | None:
    """The shares of the elements on this case, or None where there is nothing to share.

    repairs: whether denying all of them is known to repair. Each is denied alone; the lab answers what the
    search has asked before from memory, as it has for the members of every pair.
    """
    if len(elements) < 2:
        return None
    results: dict[Members[DecisionId], ProbeResult] = {}

    def removed(members: Members[DecisionId]) -> float | None:
        result = results.get(members) or study.denied(members, case)
        if result.outcome is Outcome.UNRESOLVED:
            return None
        return removed_fraction(default.measurement, result.measurement, study.criterion_of(case))

    alone = [frozenset({e}) for e in elements[:MOST_GRADED]]
    asked = study.probe_all([(study.deny(members), case) for members in alone])
    results.update(zip(alone, asked, strict=True))
    # A repair of few members was proved by denying all of them but one: the lab knows these answers.
    proved = repairs and len(elements) <= SEPARATED
    return graded(elements, removed, MOST_GRADED, LARGEST, 1.0 if repairs else None, others=proved)
