"""All passes, in the order that cuts most first, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable

from .calls import leave_out_arguments, take_composites_apart, use_numbers
from .inputs import make_contiguous, shrink_shapes, simplify_dtype, simplify_values
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
    if take_composites_apart(problem, reduce_graph):
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
