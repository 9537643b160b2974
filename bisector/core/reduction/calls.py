"""Passes by which a single call gets smaller: arguments left out or turned into numbers, a composite
decomposed where some of its parts are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..case import Case
from ..graphinfo import GraphInfo, NodeInfo, Place
from ..outcome import Outcome
from .inputs import SIMPLER, place_of_worst
from .problem import Problem, Trial

# Where this many in a row are needed, the rest mostly are too.
GIVE_UP_AFTER = 8
NUMBERS = ("one", "item:{}")  # what may stand for an input, the simplest first
FEWER_DIGITS = ("item:{}:1", "item:{}:2", "item:{}:4")

PlaceIn = tuple[str, Place]  # a call, and one of its arguments


def leave_out_arguments(problem: Problem) -> None:
    """Arguments that read a node and have a default take it: all at once, or else one after the other."""
    places = _optional(problem.info)
    if len(places) > 1 and problem.first_interesting([_with(problem.case, places, "default")]):
        return
    tried: set[PlaceIn] = set()
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
        if not _taken(problem, places, [number.format(at) for number in NUMBERS]):
            misses += 1
            continue
        misses = 0
        if problem.case.arguments[-1][2] != "one":
            _taken(problem, places, [number.format(at) for number in FEWER_DIGITS])


def _optional(info: GraphInfo) -> list[PlaceIn]:
    """Those first that read the most elements; of equals the latest, which frees all that it depended on."""
    calls = reversed(info.calls)
    found = [(info.node(name).numel, (n.name, place)) for n in calls for place, name in n.optional]
    return [place for _, place in sorted(found, key=lambda pair: -pair[0])]


def _numeric(info: GraphInfo, node: NodeInfo) -> list[PlaceIn]:
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


def _taken(problem: Problem, places: Sequence[PlaceIn], numbers: Sequence[str]) -> bool:
    return problem.first_interesting(_with(problem.case, places, number) for number in numbers)


def _with(case: Case, places: Sequence[PlaceIn], instead: str) -> Case:
    for node, place in places:
        case = case.with_argument(node, place, instead)
    return case


FEW_CALLS = 8  # of more than that a reader does not get to the parts of one
MOST_PARTS = 24  # calls of all composites together; each part can cost a few questions


def decompose_composites(problem: Problem, reduce_graph: Callable[[Problem], None]) -> bool:
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
