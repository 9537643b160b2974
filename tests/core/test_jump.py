"""The jump to the decisive nodes: one question where all else can go, a few where it cannot."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.reduction.nodes import keep_decisive_nodes
from tests.core.fakes import Graph, Subject, chain, graph
from tests.core.test_reduction import FAIL, PASS, needs


def jumped(subject: Subject, *decisive: str) -> Graph:
    problem = replace(subject.problem(), decisive=frozenset(decisive))
    keep_decisive_nodes(problem)
    return subject.whole.apply(problem.case)


def test_from_a_long_chain_it_is_one_question_to_the_decisive_nodes_and_the_output() -> None:
    subject = Subject(chain(500), needs("n40", "n300", "n499"))
    assert jumped(subject, "n40", "n300").calls == {"n40", "n300", "n499"}
    assert len(subject.asked) == 1


def test_what_comes_before_becomes_an_input_and_a_branch_beside_it_goes() -> None:
    whole = graph(
        {"x": "", "a": "x", "b": "a", "side": "x", "late": "side", "join": "b late", "end": "join"}, "end"
    )
    left = jumped(Subject(whole, needs("b", "end")), "b")
    assert left.calls == {"b", "end"}
    assert {n.name for n in left.nodes if n.op == "input"} == {"a"}


def test_where_one_more_node_is_needed_the_others_go_by_halves() -> None:
    subject = Subject(chain(64), needs("n10", "n50", "n63"))
    left = jumped(subject, "n10").calls
    assert {"n10", "n50", "n63"} <= left
    assert len(left) <= 20
    # The whole, then two halves, at most three parts of the half that stays, and so on.
    assert len(subject.asked) <= 1 + 2 + 4 + 8


def test_a_node_of_another_dtype_is_not_gone_past() -> None:
    whole = chain(4)
    nodes = tuple(replace(n, dtype="uint8") if n.name in ("n2", "n3") else n for n in whole.nodes)
    subject = Subject(replace(whole, nodes=nodes), needs("n0", "n2"))
    assert jumped(subject, "n0").calls == {"n0", "n2", "n3"}


def test_nothing_is_asked_without_a_decisive_node_above_the_output() -> None:
    whole = graph({"x": "", "a": "x", "b": "x", "c": "b"}, "c")
    for decisive in ((), ("a",), ("gone",)):
        subject = Subject(whole, needs("c"))
        assert jumped(subject, *decisive) == whole
        assert subject.asked == []


def test_a_jump_that_does_not_hold_leaves_the_case_as_it_was() -> None:
    whole = chain(3)
    subject = Subject(whole, lambda g: FAIL if g.calls == whole.calls else PASS)
    assert jumped(subject, "n0") == whole
