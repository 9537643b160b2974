"""The smallest case that the followed run suggests: from the nodes that the decisions are about to the first
that differs by more than is tolerated, on the few elements around the one that differs most.

Where the guess diverges and meets the demands, it replaces dozens of questions about what could be left out;
the passes that follow ask for what is smaller still. Where it does not, they begin with the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..case import Case
from ..graphinfo import GraphInfo
from ..trace import GRADIENT, NodeTrace, Trace, origin
from .inputs import FEW_INDICES, around_the_worst
from .problem import Problem, ValuesSeen
from .regions import Tolerated, downstream, region

# Along the innermost axis of the output, and along all others: a few elements, a vector, two vectors; in one
# row, and in two, since a compiler makes another program of a reduction to one element.
_LENGTHS = (*FEW_INDICES, (8, 1), (8, 2), (16, 1), (16, 2))
MOST_CALLS = 16  # of a part; in more of them what is needed is found by halves


def values_seen(trace: Trace, info: GraphInfo, paths: Sequence[str], tolerated: Tolerated) -> ValuesSeen:
    """What a followed run says of the nodes of the whole graph, behind the outputs that diverge. Where
    gradients do, equal values of nodes say nothing."""
    nodes = [n for n in trace.behind(paths) if not n.is_gradient]
    begins = origin(nodes)
    of_gradients = any(path.startswith(GRADIENT) for path in paths)
    dtypes = {n.name: n.dtype for n in info.nodes}
    return ValuesSeen(
        frozenset() if of_gradients else frozenset(n.name for n in nodes if _is_equal(n)),
        tuple(n.name for n in nodes if n.seen and n.difference > tolerated(dtypes.get(n.name))),
        begins.name if begins is not None else None,
    )


def _is_equal(node: NodeTrace) -> bool:
    return node.seen and not node.arises and node.difference == 0.0


def take_guess(problem: Problem) -> None:
    """Take the first part of the graph that the followed run suggests and that is interesting, and of it the
    fewest elements."""
    if problem.values is None:
        return
    parts = list(_parts(problem, problem.values))
    if problem.first_at_once(part for part in parts if part != problem.case) or problem.case in parts:
        problem.first_at_once(around_the_worst(problem, _LENGTHS))


def _parts(problem: Problem, values: ValuesSeen) -> Iterator[Case]:
    """Up to the first node that differs behind all decisive ones: the calls from these on, then all calls
    that it depends on, since what else reads the same values can have a share in a decision."""
    info = problem.info
    calls = {n.name for n in info.calls}
    begins = problem.decisive & calls or frozenset({values.origin or ""}) & calls
    end = _end(info, begins, values) if begins else None
    if end is None:
        return
    behind = info.ancestors((end,)) & calls
    between = downstream(info, frozenset(begins)) & behind
    parts = [between, *([behind] if len(behind) <= MOST_CALLS else [])]
    for inside in parts:
        if inside == calls and info.outputs == (end,):
            yield problem.case
        elif len(inside) <= MOST_CALLS:
            yield replace(region(info, inside, end), base=problem.case.base)


def _end(info: GraphInfo, begins: frozenset[str], values: ValuesSeen) -> str | None:
    able = {n.name for n in info.calls if n.is_tensor and not n.writes}
    differing = (name for name in values.differing if name in able)
    return next((name for name in differing if begins <= info.ancestors((name,))), None)
