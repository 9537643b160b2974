"""Fixes: single changes over the default compile that make the outputs agree, best first; what they cost in
time, and whether they hold on other inputs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from bisector.core.case import WHOLE, Case
from bisector.core.confirmed import Confirmed
from bisector.core.decision import DecisionId
from bisector.core.fix import Cost, DisablePasses, Elsewhere, FallBack, Fix, SetFlags, UseBackend
from bisector.core.fix_source import by_name, paste_lines
from bisector.core.flags import FlagTrial, FlagWalk
from bisector.core.model import Candidate, Json, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.protocol import Failed
from bisector.core.reduction.inputs import other_shapes
from bisector.core.search.minimal import MinimalSet

from .localisation import arising
from .study import Study, flag_of

# Of two fixes with the same residual, the one that changes less of the compiler comes first.
_KINDS = ("flag", "pass", "decomposition", "lowering", "decision", "backend")
_KIND_OF_DECISION = {"pass": "pass", "decomp": "decomposition", "lower": "lowering"}
TIMED_S = 1.5  # of rounds for one fix; the median of that many has settled
DRAWS = 4
# Draws of fewer elements show a divergence that one element in 100,000 has; one of many elements does too.
DRAWN_ELEMENTS = 2**21
# Of a node's error: two ways to compute one function, each right to a step, differ by less than either's
# polynomial of ten steps; moved rounding leaves an error as large as it was.
MOSTLY_GONE = 0.25
MOST_TRIED = 6  # fixes by flags that are tried again, and on other inputs, a few seconds each
SHAPES_TRIED = 4  # most graphs take another length of their first axis or of the next


def residual(result: ProbeResult) -> float:
    """What still differs, within tolerance: the largest absolute difference of any output."""
    return max((o.max_abs for o in result.measurement.outputs), default=0.0)


def from_flags(walk: FlagWalk) -> list[Fix]:
    """Flags that repair alone, then sets of flags that do together."""
    fixes = []
    for trial in (*walk.fixes, *_other_values(walk)):
        fixes.append(replace(_flags([trial], trial.result), program=trial.program))
    trials = {t.flag.name: t for t in walk.trials}
    for names, result in zip(walk.sets, walk.set_results, strict=True):
        fixes.append(_flags([trials[n] for n in names], result))
    return fixes


def _other_values(walk: FlagWalk) -> list[FlagTrial]:
    """Values that repair, other than the conservative ones. Where two programs have the same code, on a
    compiler's command line, those that compute the same are taken for one."""
    known = {t.flag.name: t.result.measurement.outputs for t in walk.fixes if t.flag.outside_code}
    repairing = [t for t in walk.milder if t.role == "fix"]
    return [t for t in repairing if known.get(t.flag.name) != t.result.measurement.outputs]


def _flags(trials: Sequence[FlagTrial], result: ProbeResult) -> Fix:
    values = {t.flag.name: t.value for t in trials}
    name = " + ".join(f"{n}={v}" for n, v in values.items())
    kinds = frozenset(kind for t in trials for kind in t.flag.kinds)
    return Fix(name, "flag", values, residual(result), 1.0, SetFlags(values), kinds=kinds)


def from_backends(rungs: Mapping[str, ProbeResult]) -> list[Fix]:
    """Rungs below Inductor that agree with eager: they repair by not compiling."""
    return [
        Fix(f"backend={name}", "backend", None, residual(r), 1.0, UseBackend(name))
        for name, r in rungs.items()
    ]


def from_repairs(
    repairs: Iterable[tuple[MinimalSet[DecisionId], ProbeResult]], script: str = ""
) -> list[Fix]:
    """Decisions whose denial repairs the whole subject; passes, decompositions and lowerings by name. script:
    the source of the script, where that is the subject."""
    fixes = []
    for repair, result in repairs:
        kinds = {m.kind for m in repair.members}
        kind = _KIND_OF_DECISION.get(next(iter(kinds)), "decision") if len(kinds) == 1 else "decision"
        name, plain = " + ".join(repair.members), by_name(kind, repair.members, script)
        fixes.append(Fix(name, kind, None, residual(result), 1.0, plain, decisions=repair.members))
    return fixes


def in_plain_torch(study: Study, fixes: Sequence[Fix]) -> list[Fix]:
    """The fixes, those by the name of an operation or a pass only with a way of plain torch that repairs the
    whole too."""
    disabled = {fix.id: fix.plain for fix in fixes if isinstance(fix.plain, DisablePasses)}
    left_out = {fix.id: fix.plain for fix in fixes if isinstance(fix.plain, FallBack)}
    flags = [(Candidate.with_flags(plain.values), WHOLE) for plain in disabled.values()]
    results = study.probe_all(flags) if flags else []
    lines = [line for plain in left_out.values() for line in paste_lines(plain)]
    results += study.pasted(lines) if lines else []
    answered = zip([*disabled, *left_out], results, strict=True)
    holding = {name for name, result in answered if result.outcome is Outcome.PASS}
    return [fix if fix.id in holding else replace(fix, plain=None) for fix in fixes]


def first_of_each(fixes: Iterable[Fix]) -> dict[str, Fix]:
    """Of the fixes that set flags the first of each program, by `Fix.program_or_id`."""
    first: dict[str, Fix] = {}
    for fix in fixes:
        if fix.values is not None:
            first.setdefault(fix.program_or_id, fix)
    return first


def flag_fixes(walk: FlagWalk, confirmed: Confirmed | None) -> tuple[tuple[Fix, bool], ...]:
    """The fixes that are known with the flags alone, each with whether it is confirmed. confirmed: None where
    the second worker was not asked."""
    return with_proof(ranked(from_flags(walk)), walk, confirmed)


def with_proof(
    ranked: Sequence[Fix], walk: FlagWalk, confirmed: Confirmed | None
) -> tuple[tuple[Fix, bool], ...]:
    """Each fix with whether it is confirmed: it repaired the whole in the second worker too, and does not
    only move rounding. Decisions are among the fixes only if they repaired there."""
    asked = flags_to_confirm(walk).keys() - confirmed.refuted if confirmed is not None else frozenset[str]()
    agreeing = confirmed.backends if confirmed is not None else frozenset[str]()

    def held(fix: Fix) -> bool:
        if isinstance(fix.plain, UseBackend):
            return fix.plain.backend in agreeing
        return fix.values is None or fix.program_or_id in asked

    return tuple((fix, not fix.perturbs and held(fix)) for fix in ranked)


def flags_to_confirm(walk: FlagWalk) -> dict[str, Mapping[str, Json]]:
    """The settings of the fixes by flags that a second worker is asked about, by program: best first."""
    first = first_of_each(ranked(from_flags(walk)))
    return {program: fix.values or {} for program, fix in islice(first.items(), MOST_TRIED)}


def timed(study: Study, fixes: Sequence[Fix], most: int) -> list[Fix]:
    """The fixes, of those that set flags the first few programs with what they cost."""
    costs: dict[str, Cost] = {}
    for program, fix in first_of_each(fixes).items():
        if len(costs) == most:
            break
        if (found := cost(study, Candidate.with_flags(fix.values or {}))) is not None:
            costs[program] = found
    return [replace(fix, cost=costs.get(fix.program_or_id)) for fix in fixes]


def on_other_inputs(
    study: Study, fixes: Sequence[Fix], most: int, proved: frozenset[str] = frozenset()
) -> list[Fix]:
    """The fixes, of those that set flags the first few programs with how they do on other inputs.

    proved: kinds of decision that are known to decide; a flag that governs one of them needs no other inputs.
    """
    first = first_of_each(fix for fix in fixes if not fix.kinds & proved)
    if not first:
        return list(fixes)
    asked = dict(islice(first.items(), most))
    found = elsewhere(study, [Candidate.with_flags(fix.values or {}) for fix in asked.values()])
    others = dict(zip(asked, found, strict=True))
    return [replace(fix, others=others.get(fix.program_or_id)) for fix in fixes]


def ranked(fixes: Iterable[Fix]) -> list[Fix]:
    """Best first: what only moves rounding after what does not, a backend that gives up compiling last, what
    edits torch's own tables after what a setting does, then by cost, as far as it is known, by residual, and
    by how little it changes: of two flags the one that governs fewer kinds of decision. A repair that is
    nothing but flags is left out: the flags say it."""
    fixes = list(fixes)
    by_flag = {frozenset(fix.values) for fix in fixes if fix.values}

    def rank(fix: Fix) -> tuple[bool, bool, bool, bool, float, float, int, int]:
        price = 1.0 if fix.cost is None else fix.cost.ranked
        gives_up, unnamed, edits = fix.kind == "backend", fix.plain is None, isinstance(fix.plain, FallBack)
        changed = _KINDS.index(fix.kind), len(fix.kinds)
        return fix.perturbs, gives_up, unnamed, edits, price, fix.residual_max_abs, *changed

    return sorted((fix for fix in fixes if _settings_of(fix) not in by_flag), key=rank)


def _settings_of(fix: Fix) -> frozenset[str] | None:
    """The flags that the fix denies as decisions; None where it denies none or others too."""
    kinds = {member.kind for member in fix.decisions}
    return frozenset(map(flag_of, fix.decisions)) if kinds == {"config"} else None


def cost(study: Study, candidate: Candidate) -> Cost | None:
    """The cost of a candidate on the whole subject; None where it could not be timed."""
    answer = study.slowdown(candidate, WHOLE, TIMED_S)
    if isinstance(answer, Failed):
        return None
    low, middle, high = statistics.quantiles(answer.ratios, n=4, method="inclusive")
    return Cost(middle, (low, high))


def elsewhere(study: Study, candidates: Sequence[Candidate]) -> list[Elsewhere | None]:
    """One for each candidate; None where it could not be run on other inputs."""
    info = study.describe(WHOLE)
    draws = max(1, min(DRAWS, DRAWN_ELEMENTS // max(info.elements, 1)))
    shape = _shape(study, list(islice(other_shapes(info), SHAPES_TRIED)))
    asked = [(WHOLE, draws)] + ([(shape, 1)] if shape is not None else [])
    runs = study.on_other_inputs(candidates, asked)
    if not runs:
        return [None] * len(candidates)
    found = [_counted([(run.default, run.fixed[i]) for run in runs]) for i in range(len(candidates))]
    return [
        replace(each, nearer=_nearer(study, fix)) if each.failed else each
        for each, fix in zip(found, candidates, strict=True)
    ]


def _shape(study: Study, cases: Sequence[Case]) -> Case | None:
    """The first that the graph takes."""
    return next((case for case in cases if study.takes(case)), None)


def _counted(outcomes: Sequence[tuple[Outcome, Outcome]]) -> Elsewhere:
    """outcomes: by default and with the fix, on each draw."""
    return Elsewhere(
        tried=len(outcomes),
        diverging=sum(default is Outcome.FAIL for default, _ in outcomes),
        held=outcomes.count((Outcome.FAIL, Outcome.PASS)),
        failed=sum(fixed is Outcome.FAIL for _, fixed in outcomes),
    )


def _nearer(study: Study, fix: Candidate) -> tuple[str, ...] | None:
    before, after = (arising(study, WHOLE, candidate) for candidate in (Candidate(), fix))
    if before is None or after is None:
        return None
    return tuple(n for n, error in before.items() if n not in after or after[n] < error * MOSTLY_GONE)
