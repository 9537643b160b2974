"""IDs of decisions: their parts, in a graph of their own and in one of a script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector import wire
from bisector.core.decision import Decision, DecisionId
from bisector.core.model import Candidate

NAMES = st.text(st.characters(codec="ascii", exclude_characters=":@/#\n"), min_size=1)


@given(NAMES, NAMES, NAMES, st.none() | st.integers(1, 99))
def test_the_parts_of_an_id_are_those_that_it_was_made_of(
    kind: str, detail: str, node: str, graph: int | None
) -> None:
    made = DecisionId.of(kind, detail, node)
    named = made if graph is None else made.in_graph(graph)
    assert (named.kind, named.detail, named.node, named.graph) == (kind, detail, node, graph)
    assert named == str(named) == DecisionId(named)


@pytest.mark.parametrize(
    ("text", "place", "detail", "op", "group"),
    [
        ("fma:sub@mul_1", "sub", "sub", "sub", "fma:sub"),
        ("lower:aten.mul/mul_1@gelu", "aten.mul/mul_1", "aten.mul", "aten.mul", "lower:aten.mul/mul_1"),
        ("inline:aten.clone#1@cat", "aten.clone#1", "aten.clone#1", "aten.clone", "inline:aten.clone#1"),
        ("config:inductor.cpp.simdlen@graph", *["inductor.cpp.simdlen"] * 3, "config:inductor.cpp.simdlen"),
    ],
)
def test_what_stands_between_the_kind_and_the_node(
    text: str, place: str, detail: str, op: str, group: str
) -> None:
    named = DecisionId(text)
    assert (named.place, named.detail, named.op, named.group) == (place, detail, op, group)


def test_a_node_of_a_backward_graph_is_one_of_the_graph() -> None:
    assert DecisionId("cast:float16@bwd.half").forward_node == "half"


def test_an_id_comes_back_from_the_wire_as_one() -> None:
    decision = wire.load(Decision, wire.dump(Decision(DecisionId("g2/fma:sub@mul_1"))))
    assert (decision.kind, decision.node, decision.id.graph) == ("fma", "mul_1", 2)
    candidate = wire.load(Candidate, wire.dump(Candidate.deny([decision.id])))
    assert [member.graph for member in candidate.members] == [2]
