"""From a trace to the part of a graph that should diverge by itself: guesses, the smallest first.

A graph of a thousand calls is compiled whole once, with its values returned. Where the difference arises and
where it first shows say which calls to look at; the guess is tried, and only where it agrees is it widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..case import Case
from ..graphinfo import GraphInfo
from ..trace import NodeTrace, Trace, origin

FIRST_WINDOW = 4  # calls; the next windows have twice as many each

Tolerated = Callable[[str | None], float]  # the relative difference that a tensor of a dtype may have


def regions(info: GraphInfo, trace: Trace, paths: Sequence[str], tolerated: Tolerated) -> Iterator[Case]:
    """Cases of a few calls each, with eager's values at their edges; nothing where nothing arises.

    A region ends at the first node whose difference is beyond what is tolerated, and begins at the origin,
    or as many calls before its end as a doubling window holds. The second end to try is the output.
    """
    nodes = trace.behind(paths)
    asked: set[Case] = set()
    for guesses in (_forward(info, trace, nodes, tolerated), _backward(info, nodes)):
        for case in guesses:
            if case not in asked:
                asked.add(case)
                yield case


def _forward(
    info: GraphInfo, trace: Trace, nodes: Sequence[NodeTrace], tolerated: Tolerated
) -> Iterator[Case]:
    forward = [n for n in nodes if not n.is_gradient]
    begins = origin(forward)
    if begins is None:
        return
    arising = {n.name for n in forward if n.arises}
    calls = [n.name for n in info.calls]
    for end in _ends(info, trace, forward, tolerated):
        behind = info.ancestors((end,))
        before = [name for name in calls if name in behind]
        between = downstream(info, frozenset({begins.name})) & behind
        for inside in sorted([between, *_windows(before)], key=len):
            if len(inside) < len(calls) and not inside.isdisjoint(arising):
                # The whole is known, and without an error of its own a region agrees.
                yield region(info, inside, end)


MOST_BACKWARD = 3  # operations, those whose backward pass is off most
AFTER = (1, 2, 4, 8)  # calls of a region from there on: the gradient of a sum alone may be 0


def _backward(info: GraphInfo, nodes: Sequence[NodeTrace]) -> Iterator[Case]:
    """Around the operations in whose backward pass most arises."""
    arising = sorted((n for n in nodes if n.is_gradient and n.arises), key=lambda n: (not n.wrong, -n.local))
    names = [n.name for n in info.calls]
    starts = [n.of for n in arising if n.of in names]
    for start in list(dict.fromkeys(starts))[:MOST_BACKWARD]:
        after = downstream(info, frozenset({start}))
        order = [name for name in names if name in after]
        for size in AFTER:
            inside = set(order[:size])
            end = next((n for n in reversed(order[:size]) if info.node(n).is_tensor), None)
            if end is not None and len(inside) < len(names):
                yield region(info, inside & info.ancestors((end,)), end)


def downstream(info: GraphInfo, start: frozenset[str]) -> set[str]:
    """The nodes of `start` and all that depend on them."""
    found = set(start)
    for node in info.calls:
        if not found.isdisjoint(node.reads):
            found.add(node.name)
    return found


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
    returned = set(trace.ends.values())
    can_end = [name for name in shows if info.node(name).is_tensor and not info.node(name).writes]
    return list(dict.fromkeys([*can_end[:1], *(name for name in can_end if name in returned)]))


def _windows(before: Sequence[str]) -> Iterator[set[str]]:
    """The last few calls, then twice as many, up to all."""
    size = FIRST_WINDOW
    while size < len(before):
        yield set(before[-size:])
        size *= 2
    yield set(before)
