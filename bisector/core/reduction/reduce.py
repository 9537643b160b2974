"""All passes, in the order that cuts most first, until nothing changes; and the cases that differ from what
is left in a single thing: one call less, or one index less along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from ..case import Case
from ..graphinfo import GraphInfo
from .calls import decompose_composites, leave_out_arguments, use_numbers
from .inputs import axes_together, make_contiguous, shrink_shapes, simplify_dtype, simplify_values, sliced
from .nodes import (
    end_earlier,
    keep_decisive_nodes,
    keep_one_output,
    start_later,
    take_out_nodes,
    take_out_runs,
)
from .problem import Problem

Pass = Callable[[Problem], None]

GRAPH_PASSES: tuple[Pass, ...] = (
    keep_one_output,
    keep_decisive_nodes,
    end_earlier,
    start_later,
    take_out_runs,
    take_out_nodes,
)
NARROWING: tuple[Pass, ...] = (keep_one_output, end_earlier, start_later)
ARGUMENT_PASSES: tuple[Pass, ...] = (leave_out_arguments, use_numbers)
INPUT_PASSES: tuple[Pass, ...] = (
    *ARGUMENT_PASSES,
    shrink_shapes,
    make_contiguous,
    simplify_dtype,
    simplify_values,
)
MOST_CALLS, MOST_AXES = 4, 4  # of either; a minimal case mostly has no more


def reduce(problem: Problem) -> None:
    """Make the problem's case smaller, in place. Ends when a round of the passes finds nothing more.

    The graph comes first: a smaller graph makes every later question cheaper. Then whole inputs go, and what
    is left of them is cut down. A second round follows only where the inputs became smaller, since a node or
    an argument can be needless on fewer values.
    """
    reduce_graph(problem)
    before = problem.accepted
    _until_stable(problem, INPUT_PASSES)
    if problem.accepted > before:
        problem.rebase()
        for run in (take_out_nodes, *ARGUMENT_PASSES):
            run(problem)
    if decompose_composites(problem, reduce_graph):
        _until_stable(problem, INPUT_PASSES)


def reduce_graph(problem: Problem) -> None:
    """Make the graph smaller and leave the inputs' shapes as they are, since a compiler decides by them."""
    problem.rebase()
    _until_stable(problem, GRAPH_PASSES)


def narrow(problem: Problem) -> None:
    """Only cut off what comes before and after: a few questions, each about a part of what is left."""
    problem.rebase()
    for run in NARROWING:
        run(problem)


def _until_stable(problem: Problem, passes: tuple[Pass, ...]) -> None:
    while True:
        before = problem.accepted
        for run in passes:
            run(problem)
        if problem.accepted == before or passes is INPUT_PASSES:
            return


def neighbours(case: Case, info: GraphInfo) -> Iterator[tuple[str, Case]]:
    """(what is different, the case), latest calls first, then the axes that hold the most elements.

    `case` has no edits of its own (`Case.rebased`); info is its graph.
    """
    for node in islice(reversed(info.calls), MOST_CALLS):
        others = [info.node(name) for name in node.reads]
        kept = next((o for o in others if o.shape == node.shape and o.dtype == node.dtype), None)
        if kept is None or kept.op == "constant" or node.writes:
            continue
        if info.outputs == (node.name,):
            yield f"without `{node.name}`", replace(case, outputs=(kept.name,))
        elif node.name not in info.outputs:
            yield f"without `{node.name}`", case.with_bypass(node.name, kept.name)
    for group in islice(axes_together(info), MOST_AXES):
        name, dim = group[0]
        size = info.length(name, dim)
        others_too = "" if len(group) == 1 else f" and {len(group) - 1} more like it"
        shorter = sliced(case, group, (0, size - 1, 1))
        if info.mentions(size):
            shorter = shorter.with_size(size, size - 1)
        yield f"with {size - 1} instead of {size} along dimension {dim} of `{name}`{others_too}", shorter
