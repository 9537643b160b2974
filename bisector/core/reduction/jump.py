"""The one bold pass: from the whole graph to the nodes that the decisions are about."""

from __future__ import annotations

from ..case import Case
from ..graphinfo import GraphInfo
from .nodes import downstream, stand_ins
from .problem import Problem

# All at once, then halves, then quarters; what is left is for the pass that takes out single nodes.
ROUNDS = 3


def keep_decisive_nodes(problem: Problem) -> None:
    """Cut before the decisive nodes, and take out what stands between them and the output."""
    info = problem.info
    names = {n.name for n in info.calls}
    decisive = problem.decisive & names
    if not decisive or len(info.outputs) != 1 or info.outputs[0] is None:
        return
    after = downstream(info, decisive)
    if info.outputs[0] not in after:
        return
    between = _bypasses(info, decisive, after)
    cut = sorted(
        {r for n in info.calls if n.name in after for r in n.reads if r in names and r not in after}
    )
    if (cut or between) and problem.first_interesting([_without(problem.case.with_cut(*cut), between)]):
        return
    size = len(between)
    for _ in range(ROUNDS):
        if size < 2:
            return
        size = (size + 1) // 2
        parts = [between[i : i + size] for i in range(0, len(between), size)]
        for part in parts:
            if problem.first_interesting([_without(problem.case, part)]):
                between = [pair for pair in between if pair not in part]


def _bypasses(info: GraphInfo, decisive: frozenset[str], after: set[str]) -> list[tuple[str, str]]:
    """(node, input to read instead) for each node between, latest first: the input that a decisive node
    leads to, of the same shape if there is a choice. Another dtype would be another program."""
    pairs = []
    for node in reversed(info.calls):
        if node.name not in after or node.name in decisive or node.name in info.outputs:
            continue
        others = stand_ins(node, [info.node(r) for r in node.reads if r in after])
        if others and not node.writes:
            pairs.append((node.name, others[0].name))
    return pairs


def _without(case: Case, pairs: list[tuple[str, str]]) -> Case:
    for node, other in pairs:
        case = case.with_bypass(node, other)
    return case
