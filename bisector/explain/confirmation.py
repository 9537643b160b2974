"""Confirmation in another process: what a second worker, which ran the script again, says of the sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bisector.core import progress as steps
from bisector.core.case import WHOLE
from bisector.core.confirmed import Confirmed, Decided, HeldRepair, Repair, SecondOpinion
from bisector.core.decision import Decision, DecisionId
from bisector.core.endings import AgreesThere, EndedByError, Ending, OtherGraph, OtherInputs
from bisector.core.judge import proof, removed_fraction
from bisector.core.model import Candidate, Json, Measurement, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.reasons import Reason
from bisector.core.recorded import RecordedCall
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import NotConfirmed
from bisector.errors import NumbisectError

from .search_order import PLACE, finest
from .study import Study

MOST_MEMBERS = 8  # of a set whose members are tried one by one a second time
# Runs of each set, where the default repeats to the last bit. With that of the search one that passes every
# other time is missed with probability 1/8, as where the default does not repeat.
STEADY_RUNS = 2
WRITTEN_IN_TORCH = frozenset({PLACE, "decomp"})  # kinds whose formula is a function of torch's own source


@dataclass(frozen=True)
class Confirming:
    """Who is asked. study: as the search has it by now. second: asks the second worker, each program run
    several times. call, default: what is studied, and its default compile in the first worker."""

    study: Study
    second: Study
    call: RecordedCall
    default: Measurement


def confirm(
    confirming: Confirming,
    decided: Decided,
    group: MinimalSet[DecisionId] | None,
    flags: Mapping[str, Mapping[str, Json]],
    family: Sequence[DecisionId] = (),
    backends: Sequence[str] = (),
) -> Confirmed:
    """Ask the second worker for the default, each repair, each fix by flags and each lower backend on the
    whole, each cause on the case, and there for every set also without each of its members.

    group: a repair of the whole by many decisions, if one was found. flags: the settings of fixes by flags.
    family: decisions to deny together, if there is one.
    """
    repairs, causes = finest(decided.sets.repairs), finest(decided.sets.causes)
    if not repairs:
        repairs = [MinimalSet((p,), Outcome.PASS, (Outcome.FAIL,)) for p in decided.places]
    if group is not None and group not in repairs:
        repairs.append(group)
    places = decided.places
    if not causes and len(repairs) == 1 and {m.kind for m in repairs[0].members} == {PLACE}:
        places = repairs[0].members
    decisions = _with_sources(confirming.study, decided.decisions, [*repairs, *causes], places)
    asked = _ask(confirming, decided, repairs, causes, flags, family, backends)
    if isinstance(asked, Ending):
        return Confirmed(
            tuple(Repair(r, False, 0.0) for r in repairs),
            tuple((c, False) for c in causes),
            places,
            decisions,
            refuted=frozenset(flags),
            not_shown=asked,
            notes=(NotConfirmed(asked),),
        )
    diverges = asked.default.outcome is Outcome.FAIL
    not_shown = None if diverges else _no_divergence(asked.default)
    return Confirmed(
        tuple(
            _judged(confirming, r, result, diverges and _is_minimal(r, asked))
            for r, result in zip(repairs, asked.denied, strict=True)
        ),
        tuple((c, diverges and c.confirmed and _is_cause(c, asked)) for c in causes),
        places,
        decisions,
        SecondOpinion(asked.default.outcome, tuple(r.outcome for r in asked.denied)),
        _held(repairs, asked.denied) if diverges else (),
        frozenset(n for n, outcome in asked.flags.items() if not (diverges and outcome is Outcome.PASS)),
        (asked.default, asked.family) if asked.family is not None else None,
        not_shown,
        frozenset(n for n, outcome in asked.backends.items() if diverges and outcome is Outcome.PASS),
        () if not_shown is None else (NotConfirmed(not_shown),),
    )


def summary(found: Confirmed, flags: Mapping[str, Mapping[str, Json]]) -> steps.Confirmed:
    """What is confirmed. flags: the settings of fixes by flags, as `confirm` was given them."""
    causes = [cause.members for cause in found.proved_causes]
    repairs = [repair.members for repair in found.proved_repairs]
    settings = [values for key, values in flags.items() if key not in found.refuted]
    return steps.Confirmed(causes, repairs, settings, found.not_shown)


def _is_minimal(repair: MinimalSet[DecisionId], asked: SecondWorkerResults) -> bool:
    """Whether the case diverges there again without each of the members."""
    return all(asked.deny[rest].outcome is Outcome.FAIL for rest in _rests(repair))


def _is_cause(cause: MinimalSet[DecisionId], asked: SecondWorkerResults) -> bool:
    """Whether it diverges there with the members allowed, and with each of them denied no more."""
    without = all(asked.allow[rest].outcome is Outcome.PASS for rest in _rests(cause))
    return without and asked.allow[frozenset(cause.members)].outcome is Outcome.FAIL


def _rests(found: MinimalSet[DecisionId]) -> list[frozenset[DecisionId]]:
    """The set without each of its members, the empty one for a set of one; none for a group of many, whose
    minimality would cost a probe for each."""
    members = frozenset(found.members)
    return [members - {member} for member in members] if len(members) <= MOST_MEMBERS else []


def confirm_also(confirming: Confirming, before: Confirmed, repair: MinimalSet[DecisionId]) -> Confirmed:
    """With one more repair, where those that were found do not repair the whole."""
    asked = _ask(confirming, Decided(WHOLE), [repair], [], {})
    decisions = _with_sources(confirming.study, before.decisions, [repair], before.places)
    if isinstance(asked, Ending):
        return replace(before, decisions=decisions)
    denied = asked.denied
    diverges, opinion = asked.default.outcome is Outcome.FAIL, before.second
    minimal = diverges and _is_minimal(repair, asked)
    if opinion is not None:
        opinion = replace(opinion, repairs=(*opinion.repairs, denied[0].outcome))
    return replace(
        before,
        repairs=(*before.repairs, _judged(confirming, repair, denied[0], minimal)),
        decisions=decisions,
        second=opinion,
        held=(*before.held, *(_held([repair], denied) if diverges else ())),
    )


def _judged(
    confirming: Confirming, repair: MinimalSet[DecisionId], result: ProbeResult, diverges: bool
) -> Repair:
    """diverges: whether it does in the second worker, by default and without each of the members; no repair
    is confirmed where it does not."""
    share = removed_fraction(confirming.default, result.measurement, confirming.study.criterion)
    confirmed = diverges and result.outcome is Outcome.PASS and repair.confirmed
    return Repair(repair, confirmed, share if diverges else 0.0)


def _held(
    repairs: Sequence[MinimalSet[DecisionId]], results: Sequence[ProbeResult]
) -> tuple[HeldRepair, ...]:
    pairs = zip(repairs, results, strict=True)
    return tuple((repair, result) for repair, result in pairs if result.outcome is Outcome.PASS)


def _no_divergence(default: ProbeResult) -> Reason:
    return AgreesThere() if default.outcome is Outcome.PASS else default.reason


@dataclass(frozen=True)
class SecondWorkerResults:
    """What the second worker found.

    default, denied: the default compile, and each repair, on the whole. deny, allow: on the case, these
    decisions denied, and allowed over the plain baseline. flags: of each fix, on the whole. family: without
    it, on the whole. backends: on the whole.
    """

    default: ProbeResult
    denied: list[ProbeResult]
    deny: Mapping[frozenset[DecisionId], ProbeResult]
    allow: Mapping[frozenset[DecisionId], ProbeResult]
    flags: Mapping[str, Outcome]
    family: ProbeResult | None = None
    backends: Mapping[str, Outcome] = field(default_factory=dict)


def _ask(
    confirming: Confirming,
    decided: Decided,
    repairs: Sequence[MinimalSet[DecisionId]],
    causes: Sequence[MinimalSet[DecisionId]],
    flags: Mapping[str, Mapping[str, Json]],
    family: Sequence[DecisionId] = (),
    backends: Sequence[str] = (),
) -> SecondWorkerResults | Ending:
    """Or why the second worker could not be asked."""
    study, case = confirming.second, decided.case
    deny = list(dict.fromkeys(rest for repair in repairs for rest in _rests(repair)))
    sets = [rest for cause in causes for rest in (frozenset(cause.members), *_rests(cause))]
    allow = list(dict.fromkeys(sets))
    whole = [Candidate(), *(study.deny(frozenset(r.members)) for r in repairs)]
    whole += [Candidate.with_flags(values) for values in flags.values()]
    whole += [study.deny(frozenset(family))] if family else []
    whole += [Candidate(backend=name) for name in backends]
    part = [*(study.deny(rest) for rest in deny), *(study.plain(rest, decided.also_denied) for rest in allow)]
    try:
        if (other := other_call(study, confirming.call)) is not None:
            return other
        if study.repeat > STEADY_RUNS >= confirming.study.repeat and _repeats(study):
            study = replace(study, repeat=STEADY_RUNS)
        results = study.probe_all([*((each, WHOLE) for each in whole), *((each, case) for each in part)])
    except NumbisectError as error:
        return EndedByError(str(error))
    default, *rest_of = results
    denied, rest_of = rest_of[: len(repairs)], rest_of[len(repairs) :]
    held, rest_of = rest_of[: len(flags)], rest_of[len(flags) :]
    without, rest_of = (rest_of[0], rest_of[1:]) if family else (None, rest_of)
    lower, rest_of = rest_of[: len(backends)], rest_of[len(backends) :]
    return SecondWorkerResults(
        default,
        [proof(result, repair.members) for result, repair in zip(denied, repairs, strict=True)],
        dict(zip(deny, rest_of[: len(deny)], strict=True)),
        dict(zip(allow, rest_of[len(deny) :], strict=True)),
        {name: result.outcome for name, result in zip(flags, held, strict=True)},
        without,
        {name: result.outcome for name, result in zip(backends, lower, strict=True)},
    )


def _repeats(study: Study) -> bool:
    """Whether the default compile gives the same to the last bit in each of its runs."""
    first, *more = study.lab.ask_all(study.requests([(Candidate(), WHOLE)]))
    return isinstance(first, Measurement) and all(
        isinstance(run, Measurement) and replace(run, seconds=first.seconds) == first for run in more
    )


def other_call(study: Study, call: RecordedCall) -> Ending | None:
    """Why the call of this study's worker is not this one: the same is one of graph, settings and inputs."""
    there = next((c for c in study.lab.hello().calls if c.index == study.call), None)
    if there is None or there.digest != call.digest:
        return OtherInputs()
    same = there.code == call.code and there.settings == call.settings
    return None if same else OtherGraph()


def _with_sources(
    study: Study,
    decisions: Sequence[Decision],
    sets: Sequence[MinimalSet[DecisionId]],
    places: Sequence[DecisionId],
) -> tuple[Decision, ...]:
    """The decisions; those of the sets and places with torch's own file and line of their formula."""
    named = {m for found in sets for m in found.members} | set(places)
    sources = study.formulas(sorted(m for m in named if m.kind in WRITTEN_IN_TORCH))
    return tuple(replace(d, source=sources.get(d.id, d.source)) for d in decisions)
