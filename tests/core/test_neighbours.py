"""Cases that differ from a minimal one in a single thing."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.case import WHOLE
from bisector.core.reduction.reduce import MOST_CALLS, neighbours
from tests.core.fakes import Graph, chain, graph


def of(whole: Graph) -> dict[str, Graph]:
    return {text: whole.apply(case) for text, case in neighbours(WHOLE, whole.info)}


def test_each_call_is_left_out_once_the_returned_one_by_ending_earlier() -> None:
    found = of(chain(3, (1,)))
    assert list(found) == ["without `n2`", "without `n1`", "without `n0`"]
    assert [g.calls for g in found.values()] == [{"n0", "n1"}, {"n0", "n2"}, {"n1", "n2"}]


def test_each_axis_loses_one_index_together_with_those_that_are_equal() -> None:
    found = of(graph({"x": "", "y": "", "a": "x y"}, "a", (8,)))
    text = "with 7 instead of 8 along dimension 0 of `x` and 1 more like it"
    assert found[text].shape("x") == found[text].shape("y") == (7,)


def test_a_call_of_another_dtype_or_that_writes_stays() -> None:
    whole = chain(2, (1,))
    nodes = tuple(replace(n, dtype="uint8") if n.name == "n0" else n for n in whole.nodes)
    assert list(of(replace(whole, nodes=nodes))) == []


def test_of_many_calls_the_last_few_are_offered() -> None:
    assert len(of(chain(40, (1,)))) == MOST_CALLS
