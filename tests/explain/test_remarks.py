"""What is said of a minimal case's size."""

from __future__ import annotations

from bisector.core.graphinfo import GraphInfo, NodeInfo
from bisector.core.search_notes import AllElementsNeeded, Dimension, SizeNotTried
from bisector.explain.conclusion import why_large


def inputs(*shapes: tuple[int, ...]) -> GraphInfo:
    nodes = [NodeInfo("xyz"[i], "input", "", (), shape, "float32") for i, shape in enumerate(shapes)]
    return GraphInfo(tuple(nodes), ())


def test_inputs_that_are_seen_at_a_glance_need_no_reason() -> None:
    assert why_large(inputs((8, 8)), {}) == []


def test_the_dimensions_that_nothing_shorter_will_do_for_are_named() -> None:
    needed = (("x", 1), ("y", 0), ("y", 1))
    [said] = why_large(inputs((1, 32), (32, 32)), dict.fromkeys(needed, 32))
    assert said == AllElementsNeeded(1056, tuple(Dimension(name, dim, 32) for name, dim in needed))


def test_a_dimension_that_was_cut_after_it_was_found_needed_is_not_called_needed() -> None:
    [said] = why_large(inputs((100, 2)), {("x", 0): 128, ("x", 1): 2})
    assert said == AllElementsNeeded(200, (Dimension("x", 1, 2),))


def test_where_nothing_was_tried_that_is_said() -> None:
    assert why_large(inputs((100,)), {}) == [SizeNotTried(100)]
