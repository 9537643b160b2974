"""The pass that looks inside a call: a composite taken apart, where some of its parts are not needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..model import Outcome
from .problem import Problem, Trial

FEW_CALLS = 8  # of more than that a reader does not get to the parts of one
MOST_PARTS = 24  # calls of all composites together; each part can cost a few questions


def take_composites_apart(problem: Problem, reduce_graph: Callable[[Problem], None]) -> bool:
    """All composites of a small graph at once; taken where fewer calls compute in the end. Whether it was.

    The parts together are as many as before, so a composite that is needed whole stays one call.
    """
    info = problem.info
    composites = [node for node in info.calls if node.parts > 1 and not node.writes]
    parts = sum(node.parts for node in composites)
    if not composites or len(info.calls) > FEW_CALLS or parts > MOST_PARTS:
        return False
    start = problem.case.rebased().with_unfused(*(node.name for node in composites))
    inner = replace(problem, accepted=0)
    if not inner.first_interesting([start]):
        return False
    try:
        reduce_graph(inner)
    finally:  # what was found before a budget ended
        smaller = inner.info.n_ops < info.n_ops
        if smaller:
            problem.accept(Trial(inner.case, Outcome.FAIL, inner.default, inner.also))
    return smaller
