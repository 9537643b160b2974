"""Regions of a trace: where they end and begin, and that the guess is small before it is large."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.case import Case
from bisector.core.reduction.regions import region, regions
from bisector.core.trace import NodeTrace, Trace
from tests.core.fakes import Graph, chain, graph
from tests.core.helpers import ends

OUT = ["output[0]"]


def traced(whole: Graph, arises: dict[str, bool], shows_from: str | None) -> Trace:
    """arises: the nodes where an error arises, and whether it is beyond rounding. From `shows_from` on the
    two runs differ by a tenth."""
    nodes, differs = [], False
    for n in whole.info.calls:
        differs = differs or n.name == shows_from
        found = NodeTrace(n.name, "aten.op", "", n.reads, True, difference=0.1 if differs else 0.0)
        if n.name in arises:
            found = replace(found, arises=True, local_ulp=1.0, local=1e-7, beyond=arises[n.name])
        nodes.append(found)
    return Trace(tuple(nodes), ends(*whole.outputs))


def guesses(whole: Graph, trace: Trace) -> list[Case]:
    return list(regions(whole.info, trace, OUT, lambda dtype: 1e-6))


def calls(whole: Graph, case: Case) -> set[str]:
    return whole.apply(case).calls


def test_an_error_that_shows_at_once_is_looked_for_in_one_call() -> None:
    whole = chain(1000)
    found = guesses(whole, traced(whole, {"n500": True}, "n500"))
    assert calls(whole, found[0]) == {"n500"}
    assert found[0].cut == ("n499",)


def test_an_error_that_shows_later_is_looked_for_from_there_back_to_its_origin() -> None:
    whole = chain(100)
    found = guesses(whole, traced(whole, {"n40": False}, "n43"))
    assert calls(whole, found[0]) == {"n40", "n41", "n42", "n43"}


def test_windows_double_and_none_is_asked_about_in_which_nothing_arises() -> None:
    whole = chain(64)
    sizes = [
        len(calls(whole, c)) for c in guesses(whole, traced(whole, {"n2": False, "n35": False}, "n40"))
    ]
    # Back from n40, then from n63, which is returned; 39 and 62 begin at n2, 41 at the first call.
    assert sizes == [8, 16, 32, 39, 41, 32, 62]


def test_after_the_first_place_where_it_shows_the_output_is_the_end() -> None:
    whole = graph({"x": "", "a": "x", "b": "a", "c": "b", "d": "c"}, "d")
    found = guesses(whole, traced(whole, {"b": True}, "b"))
    assert [c.outputs for c in found] == [("b",), ("b",), ("d",)]


def test_a_branch_beside_it_becomes_an_input() -> None:
    whole = graph({"x": "", "a": "x", "side": "x", "b": "a side", "end": "b"}, "end")
    first = guesses(whole, traced(whole, {"a": True}, "b"))[0]
    assert calls(whole, first) == {"a", "b"}
    assert first.cut == ("side",)


def test_what_can_be_no_input_is_taken_in_with_what_it_reads() -> None:
    whole = graph({"x": "", "a": "x", "halves": "a", "first": "halves", "end": "first"}, "end")
    nodes = tuple(replace(n, shape=None, dtype=None) if n.name == "halves" else n for n in whole.nodes)
    found = region(replace(whole, nodes=nodes).info, {"first"}, "first")
    assert found == Case(cut=("a",), outputs=("first",))


def test_where_nothing_arises_there_is_no_guess() -> None:
    whole = chain(8)
    assert guesses(whole, traced(whole, {}, "n3")) == []


def gradient(name: str, *reads: str, local: float = 0.0, wrong: bool = False) -> NodeTrace:
    error = {"arises": local > 0, "local": local, "beyond": wrong, "wrong": wrong}
    return NodeTrace(f"bwd.{name}", "aten.op", "", reads, True, **error)


def test_of_a_gradient_the_operation_in_whose_backward_pass_most_arises_is_asked_first() -> None:
    whole = chain(100)
    back = [
        gradient("n60", local=1e-7),
        gradient("n50", "bwd.n60", local=3e-7),
        gradient("n40", "bwd.n50", local=1e-7, wrong=True),
        gradient("n30", "bwd.n40"),
    ]
    trace = Trace((*traced(whole, {}, None).nodes, *back), {"grad[x]": "bwd.n30"})
    found = list(regions(whole.info, trace, ["grad[x]"], lambda dtype: 1e-6))
    sizes = [len(calls(whole, case)) for case in found]
    assert sizes == [1, 2, 4, 8] * 3
    assert [case.cut for case in found[::4]] == [("n39",), ("n49",), ("n59",)]
    assert found[2].outputs == ("n43",)
