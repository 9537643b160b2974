"""All passes, and those by which a single call gets smaller: arguments left out or turned into numbers, a
composite decomposed where some of its parts are not needed. They are run in the order that cuts most first,
until nothing changes; and the cases that differ from what is left in a single thing: one call less, or one
index less along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ..case import Case
from ..graphinfo import GraphInfo, NodeInfo, Place
from ..outcome import Outcome
from .guess import take_guess
from .inputs import (
    SIMPLER,
    axes_together,
    make_contiguous,
    place_of_worst,
    shrink_shapes,
    simplify_dtype,
    simplify_values,
    sliced,
)
from .nodes import (
    FEW_CALLS,
    end_earlier,
    keep_decisive_nodes,
    keep_one_output,
    start_later,
    take_out_each,
    take_out_nodes,
    take_out_runs,
)
from .problem import Problem, Trial

# Where this many arguments or inputs in a row are needed, the rest mostly are too.
GIVE_UP_AFTER = 8
# What may stand for an input, the simplest first.
_NUMBERS = ("one", "item:{}:2", "item:{}")

_PlaceIn = tuple[str, Place]  # a call, and one of its arguments


def leave_out_arguments(problem: Problem) -> None:
    """Arguments that read a node and have a default take it: all at once, or else one after the other."""
    places = _optional(problem.info)
    if len(places) > 1 and problem.first_interesting([_with(problem.case, places, "default")]):
        return
    tried: set[_PlaceIn] = set()
    misses = 0
    while misses < GIVE_UP_AFTER:
        place = next((p for p in _optional(problem.info) if p not in tried), None)
        if place is None:
            return
        tried.add(place)
        taken = problem.first_interesting([_with(problem.case, [place], "default")])
        misses = 0 if taken else misses + 1


def use_numbers(problem: Problem) -> None:
    """Inputs become numbers where nothing but numbers need stand: one, or what they hold behind the element
    that differs most. The largest input first."""
    tried: set[str] = set()
    misses = 0
    while misses < GIVE_UP_AFTER:
        info = problem.info
        largest = sorted(info.inputs, key=lambda n: -n.numel)
        node = next((n for n in largest if n.name not in tried and _numeric(info, n)), None)
        if node is None:
            return
        tried.add(node.name)
        places, at = _numeric(info, node), place_of_worst(problem, node)
        taken = _taken(problem, places, [number.format(at) for number in _NUMBERS])
        misses = 0 if taken else misses + 1


def _optional(info: GraphInfo) -> list[_PlaceIn]:
    """Those first that read the most elements; of equals the latest, which frees all that it depended on."""
    calls = reversed(info.calls)
    found = [(info.node(name).numel, (n.name, place)) for n in calls for place, name in n.optional]
    return [place for _, place in sorted(found, key=lambda pair: -pair[0])]


def _numeric(info: GraphInfo, node: NodeInfo) -> list[_PlaceIn]:
    """Where the input is read, if a number can stand at each of these places; else nothing."""
    readers = [n for n in info.calls if node.name in n.reads]
    if node.dtype not in SIMPLER or node.name in info.outputs:
        return []
    places = []
    for reader in readers:
        own = [(reader.name, place) for place, name in reader.numeric if name == node.name]
        if len(own) != 1 or not _decided_by_another(info, reader, node):
            return []
        places += own
    return places


def _decided_by_another(info: GraphInfo, reader: NodeInfo, node: NodeInfo) -> bool:
    """Whether another operand alone gives the result its shape and dtype."""
    others = [info.node(name) for name in reader.reads if name != node.name]
    return any(other.shape == reader.shape and other.dtype == node.dtype for other in others)


def _taken(problem: Problem, places: Sequence[_PlaceIn], numbers: Sequence[str]) -> bool:
    return problem.first_at_once(_with(problem.case, places, number) for number in numbers)


def _with(case: Case, places: Sequence[_PlaceIn], instead: str) -> Case:
    for node, place in places:
        case = case.with_argument(node, place, instead)
    return case


READABLE_CALLS = 8  # of more than that a reader does not get to the parts of one
MOST_PARTS = 24  # calls of all composites together; each part can cost a few questions


def decompose_composites(problem: Problem) -> bool:
    """All composites of a small graph at once; taken where fewer calls compute in the end. Whether it was.

    The parts together are as many as before, so a composite that is needed whole stays one call.
    """
    info = problem.info
    composites = [node for node in info.calls if node.parts > 1 and not node.writes]
    parts = sum(node.parts for node in composites)
    if not composites or len(info.calls) > READABLE_CALLS or parts > MOST_PARTS:
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

    What the followed run suggests comes first. Then the graph: a smaller one makes every later question
    cheaper. Then whole inputs go, and what is left of them is cut down. A second round follows only where
    the inputs became smaller, since a node or an argument can be needless on fewer values.
    """
    problem.rebase()
    take_guess(problem)
    reduce_graph(problem)
    before = problem.accepted
    _until_stable(problem, INPUT_PASSES)
    if problem.accepted > before:
        problem.rebase()
        for run in (_take_out, *ARGUMENT_PASSES):
            run(problem)
    if decompose_composites(problem):
        _until_stable(problem, INPUT_PASSES)


def reduce_graph(problem: Problem) -> None:
    """Make the graph smaller and leave the inputs' shapes as they are, since a compiler decides by them."""
    problem.rebase()
    if len(problem.info.calls) > FEW_CALLS:
        _until_stable(problem, GRAPH_PASSES)
    keep_one_output(problem)
    take_out_each(problem)


def _take_out(problem: Problem) -> None:
    run = take_out_nodes if len(problem.info.calls) > FEW_CALLS else take_out_each
    run(problem)


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
