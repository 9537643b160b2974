"""Cases that differ from a minimal one in a single thing: one call less, or one index less along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ..case import Case
from ..graphinfo import GraphInfo
from .inputs import axes_together, sliced

MOST_CALLS, MOST_AXES = 4, 4  # of either; a minimal case mostly has no more


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
