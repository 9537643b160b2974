"""Confirmation in another process: what a second worker, which ran the script again, says of the sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisector.core.case import WHOLE, Case
from bisector.core.judge import proof, removed_fraction
from bisector.core.model import Candidate, Decision, Outcome, ProbeResult, kind_of
from bisector.core.search.minimal import MinimalSet
from bisector.errors import NumbisectError
from bisector.runner.lab import Lab

from .culprit_search import Decided
from .search_order import PLACE, finest
from .study import Study
from .subject import Chosen

HeldRepair = tuple[MinimalSet, ProbeResult]
OTHER_INPUTS = "a second run of the script gave other inputs; seed it, or use --seed"
WRITTEN_IN_TORCH = frozenset({PLACE, "decomp"})  # kinds whose formula is a function of torch's own source


@dataclass(frozen=True)
class Repair:
    """A repair of the case that was searched, and what it does to the whole subject."""

    found: MinimalSet
    confirmed: bool
    removed_fraction: float


@dataclass(frozen=True)
class SecondOpinion:
    """Outcomes in the second worker, on the whole subject: of the default compile, and of each repair."""

    default: Outcome
    repairs: tuple[Outcome, ...]


@dataclass(frozen=True)
class Confirmed:
    """The sets that were found, each with whether it is confirmed.

    places: fallbacks that repair where nothing finer does. decisions: those that are named, with torch's own
    file and line where a formula is to blame. second: None where the second worker could not be asked.
    held: the repairs that repair the whole there; a fix need not be minimal, a repair must be.
    """

    repairs: tuple[Repair, ...] = ()
    causes: tuple[tuple[MinimalSet, bool], ...] = ()
    places: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    second: SecondOpinion | None = None
    held: tuple[HeldRepair, ...] = ()
    notes: tuple[str, ...] = ()


def confirm(chosen: Chosen, second: Lab, decided: Decided, group: MinimalSet | None) -> Confirmed:
    """Ask the second worker for the default, each repair on the whole, and each cause on the case.

    group: a repair of the whole by many decisions, if one was found.
    """
    repairs, causes = finest(decided.sets.repairs), finest(decided.sets.causes)
    if not repairs:
        repairs = [MinimalSet((p,), Outcome.PASS, (Outcome.FAIL,)) for p in decided.places]
    if group is not None and group not in repairs:
        repairs.append(group)
    places = decided.places
    if not causes and len(repairs) == 1 and {kind_of(m) for m in repairs[0].members} == {PLACE}:
        places = repairs[0].members
    decisions = _with_sources(chosen.study, decided.decisions, [*repairs, *causes], places)
    asked = _ask(chosen, second, decided.case, repairs, causes, decided.beside)
    if isinstance(asked, str):
        return Confirmed(
            tuple(Repair(r, False, 0.0) for r in repairs),
            tuple((c, False) for c in causes),
            places,
            decisions,
            notes=(f"not confirmed in a second process: {asked}",),
        )
    default, denied, enabled = asked
    diverges = default.outcome is Outcome.FAIL
    return Confirmed(
        tuple(_judged(chosen, r, result, diverges) for r, result in zip(repairs, denied, strict=True)),
        tuple(
            (c, diverges and c.confirmed and again.outcome is Outcome.FAIL)
            for c, again in zip(causes, enabled, strict=True)
        ),
        places,
        decisions,
        SecondOpinion(default.outcome, tuple(r.outcome for r in denied)),
        _held(repairs, denied) if diverges else (),
        () if diverges else (_no_divergence(default),),
    )


def confirm_also(chosen: Chosen, second: Lab, before: Confirmed, repair: MinimalSet) -> Confirmed:
    """With one more repair, where those that were found do not repair the whole."""
    asked = _ask(chosen, second, WHOLE, [repair], [], ())
    decisions = _with_sources(chosen.study, before.decisions, [repair], before.places)
    if isinstance(asked, str):
        return replace(before, decisions=decisions)
    default, denied, _ = asked
    diverges, opinion = default.outcome is Outcome.FAIL, before.second
    if opinion is not None:
        opinion = replace(opinion, repairs=(*opinion.repairs, denied[0].outcome))
    return replace(
        before,
        repairs=(*before.repairs, _judged(chosen, repair, denied[0], diverges)),
        decisions=decisions,
        second=opinion,
        held=(*before.held, *(_held([repair], denied) if diverges else ())),
    )


def _judged(chosen: Chosen, repair: MinimalSet, result: ProbeResult, diverges: bool) -> Repair:
    """diverges: whether the default compile does in the second worker; no repair is confirmed without."""
    share = removed_fraction(chosen.evidence.default, result.measurement, chosen.study.criterion)
    confirmed = diverges and result.outcome is Outcome.PASS and repair.confirmed
    return Repair(repair, confirmed, share if diverges else 0.0)


def _held(repairs: Sequence[MinimalSet], results: Sequence[ProbeResult]) -> tuple[HeldRepair, ...]:
    pairs = zip(repairs, results, strict=True)
    return tuple((repair, result) for repair, result in pairs if result.outcome is Outcome.PASS)


def _no_divergence(default: ProbeResult) -> str:
    told = {Outcome.PASS: "eager and compiled agree there"}.get(default.outcome, default.reason)
    return f"not confirmed in a second process: {told}"


Asked = tuple[ProbeResult, list[ProbeResult], list[ProbeResult]]


def _ask(
    chosen: Chosen,
    lab: Lab,
    case: Case,
    repairs: Sequence[MinimalSet],
    causes: Sequence[MinimalSet],
    beside: Sequence[str],
) -> Asked | str:
    """The default, each repair denied on the whole, each cause alone over the plain baseline of the case; or
    why the second worker could not be asked."""
    study = replace(chosen.study, lab=lab)
    try:
        if not _same_inputs(study, chosen.call.digest):
            return OTHER_INPUTS
        asked = [(Candidate(), WHOLE), *((study.deny(frozenset(r.members)), WHOLE) for r in repairs)]
        asked += [(study.plain(frozenset(c.members), beside), case) for c in causes]
        results = study.probe_all(asked)
    except NumbisectError as error:
        return str(error)
    n = 1 + len(repairs)
    denied = [proof(r, repair.members) for r, repair in zip(results[1:n], repairs, strict=True)]
    return results[0], denied, results[n:]


def _same_inputs(study: Study, digest: str) -> bool:
    calls = [c for c in study.lab.hello().calls if c.index == study.call]
    return bool(calls) and calls[0].digest == digest


def _with_sources(
    study: Study, decisions: Sequence[Decision], sets: Sequence[MinimalSet], places: Sequence[str]
) -> tuple[Decision, ...]:
    """The decisions; those of the sets and places with torch's own file and line of their formula."""
    named = {m for found in sets for m in found.members} | set(places)
    sources = study.formulas(sorted(m for m in named if kind_of(m) in WRITTEN_IN_TORCH))
    return tuple(replace(d, source=sources.get(d.id, d.source)) for d in decisions)
