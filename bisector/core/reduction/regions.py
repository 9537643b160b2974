"""From a trace to the part of a graph that should diverge by itself: guesses, the smallest first.

A graph of a thousand calls is compiled whole once, with its values returned. Where the difference arises and
where it first shows say which calls to look at; the guess is tried, and only where it agrees is it widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..case import Case
from ..graphinfo import GraphInfo
from ..trace import NodeTrace, Trace, origin
from .nodes import downstream

FIRST_WINDOW = 4  # calls; the next windows have twice as many each

Tolerated = Callable[[str | None], float]  # the relative difference that a tensor of a dtype may have


def regions(info: GraphInfo, trace: Trace, paths: Sequence[str], tolerated: Tolerated) -> Iterator[Case]:
    """Cases of a few calls each, with eager's values at their edges; nothing where nothing arises.

    A region ends at the first node whose difference is beyond what is tolerated, and begins at the origin,
    or as many calls before its end as a doubling window holds. The second end to try is the output.
    """
    nodes = trace.behind(paths)
    begins = origin(nodes)
    if begins is None:
        return
    arising = {n.name for n in nodes if n.arises}
    calls = [n.name for n in info.calls]
    asked: set[Case] = set()
    for end in _ends(info, trace, nodes, tolerated):
        behind = info.ancestors((end,))
        before = [name for name in calls if name in behind]
        between = downstream(info, frozenset({begins.name})) & behind
        for inside in sorted([between, *_windows(before)], key=len):
            if len(inside) == len(calls) or inside.isdisjoint(arising):
                continue  # the whole is known, and without an error of its own a region agrees
            case = region(info, inside, end)
            if case not in asked:
                asked.add(case)
                yield case


def region(info: GraphInfo, inside: set[str], end: str) -> Case:
    """The calls inside, and what they read that can be no input, up to the one that is returned."""
    by_name = {n.name: n for n in info.nodes}
    kept, cut = set[str](), set[str]()
    work = sorted(inside)
    while work:
        name = work.pop()
        kept.add(name)
        for read in by_name[name].reads:
            if by_name[read].op != "call" or read in kept or read in inside:
                continue
            if by_name[read].is_tensor:
                cut.add(read)
            else:
                work.append(read)
    return Case(cut=tuple(sorted(cut - kept)), outputs=(end,))


def _ends(info: GraphInfo, trace: Trace, nodes: Sequence[NodeTrace], tolerated: Tolerated) -> list[str]:
    shows = [n.name for n in nodes if n.difference > tolerated(info.node(n.name).dtype)]
    returned = [name for name in trace.outputs if name is not None]
    can_end = [name for name in shows if info.node(name).is_tensor and not info.node(name).writes]
    return list(dict.fromkeys([*can_end[:1], *(name for name in can_end if name in returned)]))


def _windows(before: Sequence[str]) -> Iterator[set[str]]:
    """The last few calls, then twice as many, up to all."""
    size = FIRST_WINDOW
    while size < len(before):
        yield set(before[-size:])
        size *= 2
    yield set(before)
