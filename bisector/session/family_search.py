"""The family of decisions that carries a divergence of a large graph, asked of the whole graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bisector.core.case import WHOLE
from bisector.core.judge import proof, removed_fraction
from bisector.core.kinds import KINDS
from bisector.core.model import Decision, Outcome, ProbeResult, kind_of, node_of
from bisector.core.search.families import Family, Members, Tried, family
from bisector.core.trace import Trace
from bisector.errors import NumbisectError
from bisector.runner.lab import Lab

from .confirmation import RUNS
from .search_order import PLACE, SEPARATED
from .study import Study

MOST_QUESTIONS = 8  # compiles of the whole; 6 where the first group repairs
MOST_LAYERS = 8  # that are told
ALIKE = 0.05  # of two shares of one divergence


@dataclass(frozen=True)
class FoundFamily:
    """layers: the parts of the model with how many of the decisions are there, the most first. confirmed: the
    second worker saw the whole diverge, and without the family agree, or as much of it removed."""

    family: Family
    layers: tuple[tuple[str, int], ...]
    confirmed: bool = False


def family_of_whole(
    study: Study, default: ProbeResult, trace: Trace | None, suspected: Collection[str]
) -> FoundFamily | None:
    """None where no decisions together carry much of it, and where few enough repair the whole that a search
    takes them apart.

    trace: of the whole. suspected: kinds of decision that are governed by flags that repair.
    """
    decisions = [d for d in default.measurement.decisions if d.kind not in study.hooks_off]
    groups = _by_kind([d for d in decisions if d.kind != PLACE], trace, suspected)

    def ask(sets: Sequence[Members]) -> list[Tried]:
        results = study.probe_all([(study.deny(frozenset(members)), WHOLE) for members in sets])
        proved = [proof(result, members) for result, members in zip(results, sets, strict=True)]
        before = default.measurement
        return [
            Tried(members, result.outcome, removed_fraction(before, result.measurement, study.criterion))
            for members, result in zip(sets, proved, strict=True)
        ]

    found = family(groups, ask, MOST_QUESTIONS)
    if found is None or len(found.members) <= SEPARATED:
        return None
    return FoundFamily(found, _layers(study, found.members))


def _by_kind(
    decisions: Sequence[Decision], trace: Trace | None, suspected: Collection[str]
) -> dict[str, Members]:
    """Decisions by kind; first what flags that repair govern, then those of nodes where most arises."""
    arises = {n.name: n.local for n in trace.nodes if n.arises} if trace is not None else {}
    there: dict[str, float] = defaultdict(float)
    groups: dict[str, list[str]] = {}
    for decision in decisions:
        groups.setdefault(decision.kind, []).append(decision.id)
        there[decision.kind] += arises.get(decision.node, 0.0)

    def rank(kind: str) -> tuple[bool, bool, float, int]:
        return kind not in suspected, KINDS[kind].makes_room, -there[kind], -len(groups[kind])

    return {kind: tuple(groups[kind]) for kind in sorted(groups, key=rank)}


def _layers(study: Study, members: Members) -> tuple[tuple[str, int], ...]:
    modules = {node.name: layer_of(node.module) for node in study.describe(WHOLE).nodes}
    counted = Counter(modules.get(node_of(member), "") for member in members)
    return tuple((layer, count) for layer, count in counted.most_common(MOST_LAYERS) if layer)


def layer_of(module: str) -> str:
    """`model.layers.3` of `model.layers.3.mlp.act_fn`: up to the first number, or the first two names."""
    names = module.split(".")
    numbers = [at for at, name in enumerate(names) if name.isdigit()]
    return ".".join(names[: numbers[0] + 1 if numbers else 2])


def confirmed(found: FoundFamily, study: Study, second: Lab) -> FoundFamily:
    """Asked again of the second worker."""
    again = replace(study, lab=second, runs=RUNS)
    members = found.family.members
    try:
        default, denied = again.probe_all([(again.deny(frozenset(m)), WHOLE) for m in ((), members)])
    except NumbisectError:
        return found
    removed = removed_fraction(default.measurement, denied.measurement, study.criterion)
    repairs = proof(denied, members).outcome is Outcome.PASS
    holds = repairs if found.family.repairs else removed >= found.family.removed - ALIKE
    return replace(found, confirmed=default.outcome is Outcome.FAIL and holds)


def kinds_of(found: FoundFamily) -> tuple[str, ...]:
    """The kinds of its decisions."""
    return tuple(dict.fromkeys(map(kind_of, found.family.members)))
