"""Origin, amplifier and amplified rounding, from tables of what arises and grows at each node."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector import wire
from bisector.core.trace import AMPLIFIED, GROWS, NodeTrace, Trace, amplified, amplifier, origin
from tests.core.helpers import ends

EPS = 1.2e-7


def node(name: str, *reads: str, **fields: Any) -> NodeTrace:
    head = {"name": name, "op": f"aten.{name}", "where": "f.py:1", "reads": reads, "seen": True}
    return NodeTrace(**{**head, **fields})


def rounds(name: str, *reads: str, **fields: Any) -> NodeTrace:
    """A node that differs by one ulp on equal inputs."""
    return node(name, *reads, **{"arises": True, "local_ulp": 1.0, "local": EPS, "difference": EPS, **fields})


def wrong(name: str, *reads: str, **fields: Any) -> NodeTrace:
    given = {"local_ulp": 5e3, "local": 1e-3, "difference": 1e-3, "beyond": True}
    return rounds(name, *reads, **{**given, **fields})


ERF, LOG = rounds("erf", "x"), rounds("log2", "erf", gain=1.5)
CEIL = node("ceil", "log2", gain=4e5, difference=0.05)
STEPS = Trace((ERF, LOG, CEIL), ends("ceil"))


def test_the_first_node_that_rounds_otherwise_is_the_origin_where_none_is_wrong() -> None:
    assert origin(STEPS.nodes) is ERF


def test_a_node_that_is_wrong_is_the_origin_though_others_round_before_it() -> None:
    bad = wrong("add", "log2")
    assert origin((ERF, LOG, bad, wrong("later", "add"))) is bad


def test_nothing_arises_and_there_is_no_origin() -> None:
    assert origin((node("a"), node("b", "a", gain=100.0))) is None


def test_the_amplifier_has_the_largest_gain_and_is_the_first_of_equal_ones() -> None:
    assert amplifier(STEPS.nodes) is CEIL
    first, second = node("a", gain=float("inf")), node("b", gain=float("inf"))
    assert amplifier((CEIL, first, second)) is first


def test_a_difference_that_nowhere_doubles_has_no_amplifier() -> None:
    assert amplifier((ERF, replace(LOG, gain=GROWS * 0.99))) is None


def test_rounding_that_a_step_makes_large_is_amplified_rounding() -> None:
    assert amplified(STEPS, ["output[0]"]) is True


def test_a_recurrence_amplifies_though_each_of_its_nodes_grows_little() -> None:
    steps = [rounds("h0", "x")]
    for i in range(1, 20):
        steps.append(rounds(f"h{i}", f"h{i - 1}", gain=1.9, difference=min(1.0, EPS * 2.0**i)))
    assert amplified(Trace(tuple(steps), ends("h19")), ["output[0]"]) is True


def test_rounding_errors_that_add_up_are_not_amplified() -> None:
    steps = [rounds(f"h{i}", f"h{i - 1}", difference=EPS * (i + 1)) for i in range(50)]
    assert amplified(Trace(tuple(steps), ends("h49")), ["output[0]"]) is False


def test_a_wrong_node_is_no_rounding_however_much_is_amplified_after_it() -> None:
    trace = Trace((wrong("sub", "x"), node("exp", "sub", gain=1e12, difference=9e5)), ends("exp"))
    assert amplified(trace, ["output[0]"]) is False


def test_a_wrong_node_is_no_proof_where_a_value_before_it_is_not_known() -> None:
    trace = Trace((node("mul", "x", seen=False), wrong("sub", "mul")), ends("sub"))
    assert amplified(trace, ["output[0]"]) is None


@pytest.mark.parametrize("path", ["output[1]", "grad[x]", "mutated[x]"])
def test_an_output_that_was_not_followed_tells_nothing(path: str) -> None:
    assert amplified(STEPS, [path]) is None
    assert STEPS.behind([path]) == ()


def test_only_what_the_output_depends_on_counts() -> None:
    trace = Trace((wrong("side", "x"), *STEPS.nodes), ends("side", "ceil"))
    assert trace.behind(["output[1]"]) == STEPS.nodes
    assert amplified(trace, ["output[1]"]) is True
    assert amplified(trace, ["output[0]", "output[1]"]) is False


nodes_of = st.lists(
    st.tuples(
        st.booleans(), st.booleans(), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e9)),
        st.floats(0, 1),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def chain(drawn: list[tuple[bool, bool, float, float | None, float]]) -> Trace:
    nodes = [
        node(
            f"n{i}", f"n{i - 1}", arises=arises or beyond, beyond=beyond, local=local, gain=gain,
            difference=difference,
        )
        for i, (arises, beyond, local, gain, difference) in enumerate(drawn)
    ]  # fmt: skip
    return Trace(tuple(nodes), ends(nodes[-1].name))


@given(nodes_of)
def test_origin_amplifier_and_class_agree_with_their_definitions(drawn: Any) -> None:
    trace = chain(drawn)
    nodes = trace.behind(["output[0]"])
    assert nodes == trace.nodes
    begins, grows, told = origin(nodes), amplifier(nodes), amplified(trace, ["output[0]"])
    if begins is not None:
        before = nodes[: nodes.index(begins)]
        assert not any(n.beyond for n in before)
        assert begins.beyond or not any(n.arises for n in before)
    if grows is not None:
        assert all((n.gain or 0) <= (grows.gain or 0) for n in nodes)
    if told:
        assert begins is not None and not begins.beyond
        assert nodes[-1].difference > AMPLIFIED * sum(n.local for n in nodes)
    assert (told is None) == (begins is None)


@given(nodes_of)
def test_a_trace_survives_json(drawn: Any) -> None:
    trace = chain(drawn)
    assert wire.load(Trace, json.loads(json.dumps(wire.dump(trace)))) == trace
