"""What a search looks into first."""

from __future__ import annotations

from bisector.core.decision import DecisionId
from bisector.core.followed import Followed
from bisector.core.model import DivergenceKind, Signature
from bisector.core.trace import NodeTrace, Trace
from bisector.explain.search_order import Suspects, suspects

IDS = [
    DecisionId.of("fma", "sub", "mul"),
    DecisionId.of("cast", "float16", "half"),
    DecisionId.of("inline", "aten.mul", "mul"),
    DecisionId.of("inline", "aten.exp", "exp"),
    DecisionId.of("fma", "add", "bwd.x"),
]


def signature(path: str) -> Signature:
    return Signature(path, DivergenceKind.NONFINITE)


def origin(name: str, *reads: str) -> Followed:
    node = NodeTrace(name, "sub", "", reads, seen=True, arises=True)
    return Followed(Trace((node,), {}), origin=node)


def test_nothing_known_suspects_nothing() -> None:
    assert Suspects().sets(IDS) == []


def test_suspected_kinds_are_looked_into_with_what_is_recomputed() -> None:
    alone, together = Suspects(kinds=frozenset({"cast"})).sets(IDS)
    assert alone == {"cast:float16@half"}
    assert together == {"cast:float16@half", "inline:aten.mul@mul", "inline:aten.exp@exp"}


def test_the_kinds_at_the_origin_and_what_it_reads_come_before_the_kinds_anywhere() -> None:
    found = suspects(frozenset({"fma"}), origin("sub", "mul"), [signature("output[0]")]).sets(IDS)
    assert found[:2] == [{"fma:sub@mul"}, {"fma:sub@mul", "inline:aten.mul@mul"}]
    assert found[2] == {"fma:sub@mul", "fma:add@bwd.x"}


def test_every_node_where_a_difference_arises_is_known() -> None:
    assert suspects(frozenset(), origin("sub", "mul"), []).arising == {"sub"}


def test_of_gradients_alone_the_backward_graph_is_looked_into() -> None:
    assert suspects(frozenset(), None, [signature("grad[x]")]).sets(IDS) == [{"fma:add@bwd.x"}]
    assert suspects(frozenset(), None, [signature("grad[x]"), signature("output[0]")]).sets(IDS) == []


def test_no_set_is_asked_twice() -> None:
    found = suspects(frozenset({"fma"}), origin("mul"), []).sets(IDS[:1])
    assert found == [{"fma:sub@mul"}]
