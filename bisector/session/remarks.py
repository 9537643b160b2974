"""What a reader should know of the minimal case: whose values it has, why it is large, what else was seen."""

from __future__ import annotations

from collections.abc import Mapping

from bisector.core.case import Case
from bisector.core.graphinfo import Axis, GraphInfo

from .study import Study

AT_A_GLANCE = 64  # elements; of inputs with more it is said why they have so many


def remarks(study: Study, case: Case, uncut: Mapping[Axis, int], also_seen: Mapping[str, Case]) -> list[str]:
    """Notes on the case. uncut: `Problem.uncut`; also_seen: smaller cases that diverge otherwise."""
    notes = []
    if case.has_own_values:
        notes.append(
            "the inputs of the minimal case are not the script's own: some were multiplied, rounded or cast, "
            "so that so few values still diverge"
        )
    notes += why_large(study.describe(case), uncut)
    for what, other in also_seen.items():
        ops = ", ".join(study.describe(other).aten)
        notes.append(f"also seen in a smaller case ({ops}), and kept aside: {what}")
    return notes


def why_large(info: GraphInfo, uncut: Mapping[Axis, int]) -> list[str]:
    """A note where the inputs are more than a reader takes in at a glance."""
    if info.elements <= AT_A_GLANCE:
        return []
    needed = [axis for axis, size in info.axes.items() if uncut.get(axis) == size]
    if not needed:
        return [f"the inputs have {info.elements} elements; that fewer would do was not tried"]
    axes = ", ".join(f"dimension {dim} of `{name}` ({info.length(name, dim)})" for name, dim in needed)
    return [
        f"the inputs have {info.elements} elements: with less along {axes}, what was tried agrees or shows "
        "another divergence"
    ]
