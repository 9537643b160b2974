"""Which decisions do it: the search of both views on one case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bisector.core.case import Case
from bisector.core.contract import Breach, ContractCheck, check_causes, check_repairs
from bisector.core.model import Decision, Outcome, ProbeResult, kind_of
from bisector.core.probe import BudgetSpent
from bisector.core.search.ahead import Inverted, Members, Parallel, Test
from bisector.core.search.minimal import MinimalSet, minimal_set
from bisector.core.search.sets import SetsFound, all_sets, repairs_only

from .asking import Allowance, Denied, Enabled
from .study import Study, config_id

# More sets than this of either view are no longer an answer; the result says that the search stopped.
MOST_SETS = 8
# Where many decisions each suffice, the sets grow without end; what one allowance finds is reported.
MOST_PROBES = 100
# A repair by groups is taken apart into single decisions up to this many members.
SEPARATED = 12
RECOMPUTED = "inline"
PLACE = "lower"  # names where, not why: a fallback also breaks fusion and recomputation around its node
# Answers name the finest kind first: a single operation before a kernel's shape before a graph rewrite.
FINEST_FIRST = (
    "fma",
    "vec",
    "cast",
    "const",
    "layout",
    "prepack",
    "template",
    "unroll",
    "split",
    "welford",
    "inline",
    "remat",
    "fuse",
    "cfold",
    "match",
    "decomp",
    "pass",
    "inplace",
    "reuse",
    "cudagraph",
    "config",
    PLACE,
)


@dataclass
class Decided:
    """Sets over one case: the one searched, which the causes are confirmed on.

    places: fallbacks that repair where no finer decision does. config: the flags that stand in as
    decisions. checks: the ends that did not hold, each in a sentence for the report.
    """

    case: Case
    decisions: tuple[Decision, ...] = ()
    sets: SetsFound = field(default_factory=SetsFound)
    places: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    checks: list[str] = field(default_factory=list)


def decide(
    study: Study, case: Case, default: ProbeResult, flags: Sequence[str], suspected: frozenset[str]
) -> Decided:
    """Search causes and repairs among the decisions of this case's default compile.

    flags: those that repair, alone or together. They stand in as decisions of kind `config` where the
    finer kinds leave the plain baseline diverging. suspected: kinds to look into first.
    """
    decisions = tuple(d for d in default.measurement.decisions if d.kind not in study.hooks_off)
    elements = _ordered(d.id for d in decisions if d.kind != PLACE)
    found = Decided(case, decisions)
    try:
        config = _config_needed(study, case, elements, flags)
        found.config = tuple(config)
        everything = [*elements, *config]
        causes, repairs = _ends(study, case, default, everything, config)
        likely = _likely(everything, suspected)
        _search(study, case, everything, config, causes, repairs, found, likely)
    except BudgetSpent as spent:
        found.sets = SetsFound(stopped_because=spent.reason)
    return found


def _config_needed(study: Study, case: Case, elements: list[str], flags: Sequence[str]) -> list[str]:
    """The flags as decisions, if with every finer decision denied the case still diverges."""
    members, nothing = frozenset(elements), frozenset[str]()
    # The other ends are asked next; together they take less time.
    ends = (study.plain(nothing, []), study.plain(members, []), study.deny(members))
    if study.probe_all([(end, case) for end in ends])[0].outcome is not Outcome.FAIL:
        return []
    return [config_id(name) for name in flags]


def _likely(elements: Sequence[str], suspected: frozenset[str]) -> list[Members]:
    """The elements of the suspected kinds; and those together with what decides where a value is computed,
    since a rounding that a kernel skips shows where the same value was stored."""
    if not suspected:
        return []
    choices = (suspected, suspected | {RECOMPUTED})
    return [frozenset(e for e in elements if kind_of(e) in kinds) for kinds in choices]


def _ends(
    study: Study, case: Case, default: ProbeResult, everything: list[str], config: list[str]
) -> tuple[ContractCheck, ContractCheck]:
    members = frozenset(everything)
    plain = study.enabled(frozenset(), case, config)
    causes = check_causes(plain, study.enabled(members, case, config))
    return causes, check_repairs(default, study.denied(members, case))


def _search(
    study: Study,
    case: Case,
    everything: list[str],
    config: list[str],
    causes: ContractCheck,
    repairs: ContractCheck,
    found: Decided,
    likely: Sequence[Members],
) -> None:
    allowance = Allowance(MOST_PROBES)
    denied = Denied(study, case, allowance)
    enabled = Enabled(study, case, allowance, config)
    if causes.holds and repairs.holds:
        found.sets = all_sets(everything, enabled, denied, MOST_SETS, likely)
        if not found.sets.repairs:
            # Too many causes for one allowance: a repair says more than the causes left out.
            found.sets = replace(found.sets, repairs=_first_repair(study, case, everything))
    elif repairs.holds:
        found.checks.append(causes.problem or "")
        found.sets = repairs_only(everything, denied, MOST_SETS, likely)
    else:
        found.checks += [check.problem for check in (causes, repairs) if check.problem is not None]
        if repairs.breach in (Breach.PLAIN_FAILS, Breach.PLAIN_UNRESOLVED):
            found.places = _places(study, case, found.decisions)


def _first_repair(study: Study, case: Case, elements: Sequence[str]) -> tuple[MinimalSet, ...]:
    return (_by_groups(elements, Inverted(Denied(study, case))).inverted(),)


def _places(study: Study, case: Case, decisions: Sequence[Decision]) -> tuple[str, ...]:
    """The fallbacks that repair alone; else one minimal set of them, if all together do."""
    places = [d.id for d in decisions if d.kind == PLACE]
    results = study.probe_all([(study.deny(frozenset({p})), case) for p in places])
    alone = tuple(p for p, r in zip(places, results, strict=True) if r.outcome is Outcome.PASS)
    if alone or len(places) < 2:
        return alone
    if study.denied(frozenset(places), case).outcome is not Outcome.PASS:
        return ()
    return _by_groups(places, Inverted(Denied(study, case))).members


def one_repair(study: Study, case: Case, default: ProbeResult) -> MinimalSet | None:
    """One repair among all decisions, fallbacks included only if nothing finer repairs.

    First by groups (every `lower:aten.tanh`, say), then inside them if few are left: where a hundred equal
    layers each add their part, the group is the answer, and its members one by one would cost a day.
    """
    ids = _ordered(d.id for d in default.measurement.decisions if d.kind not in study.hooks_off)
    fine = [i for i in ids if kind_of(i) != PLACE]
    for elements in (fine, ids):
        if elements and study.denied(frozenset(elements), case).outcome is Outcome.PASS:
            return _by_groups(elements, Inverted(Denied(study, case))).inverted()
    return None


def _by_groups(elements: Sequence[str], test: Test) -> MinimalSet:
    """A set that FAILs: minimal in groups, and 1-minimal in members where there are few."""
    groups: dict[str, list[str]] = {}
    for element in elements:
        groups.setdefault(group_of(element), []).append(element)

    found = minimal_set(list(groups), _Grouped(test, groups)) if len(groups) > 1 else None
    names = found.members if found is not None else tuple(groups)
    members = [m for name in names for m in groups[name]]
    if len(members) > 1 and len(members) <= SEPARATED:
        return minimal_set(members, test)
    unproved = Outcome.PASS if len(members) == 1 else Outcome.UNRESOLVED
    return MinimalSet(tuple(members), Outcome.FAIL, tuple(unproved for _ in members))


class _Grouped:
    """A test of groups by their names."""

    def __init__(self, test: Test, groups: Mapping[str, list[str]]) -> None:
        self._test = test
        self._groups = groups
        self.lanes = test.lanes if isinstance(test, Parallel) else 1

    def __call__(self, names: Members) -> Outcome:
        return self._test(self._members(names))

    def ahead(self, sets: Sequence[Members]) -> None:
        if isinstance(self._test, Parallel):
            self._test.ahead([self._members(names) for names in sets])

    def _members(self, names: Members) -> Members:
        return frozenset(m for name in names for m in self._groups[name])


def group_of(decision_id: str) -> str:
    """`lower:aten.tanh` of `lower:aten.tanh@h_3`: the same choice made at many nodes."""
    return decision_id.rpartition("@")[0]


def _ordered(ids: Iterable[str]) -> list[str]:
    rank = {kind: i for i, kind in enumerate(FINEST_FIRST)}
    return sorted(ids, key=lambda i: rank.get(kind_of(i), len(rank)))


def finest(sets: Sequence[MinimalSet]) -> list[MinimalSet]:
    """Small sets first, among equals the finest kind first."""
    rank = {kind: i for i, kind in enumerate(FINEST_FIRST)}

    def key(found: MinimalSet) -> tuple[int, list[int]]:
        return len(found.members), sorted(rank.get(kind_of(m), len(rank)) for m in found.members)

    return sorted(sets, key=key)
