"""A composite is taken apart only where that leaves less to compute."""

from __future__ import annotations

from bisector.core.outcome import Outcome
from bisector.core.reduction.reduce import decompose_composites, reduce
from tests.core.fakes import Diverges, Graph, Subject, composite, graph

FAIL, PASS = Outcome.FAIL, Outcome.PASS
NORM = {"x": "", "a": "x", "norm": "a", "b": "norm"}
PARTS = ("norm__sum", "norm__root", "norm")  # each reads the one before


def needs(*names: str) -> Diverges:
    """Diverges while these parts are computed, be it by a composite."""
    return lambda g: FAIL if set(names) <= g.computed else PASS


def norm() -> Graph:
    return composite(graph(NORM, "b"), "norm", PARTS)


def test_parts_that_are_not_needed_go() -> None:
    subject = Subject(norm(), needs("norm__root", "b"))
    problem = subject.problem()
    reduce(problem)
    left = subject.whole.apply(problem.case)
    assert left.calls == {"norm__root", "b"}
    assert left.info.n_ops == 2


def test_a_composite_that_is_needed_whole_stays_one_call() -> None:
    subject = Subject(composite(graph({"x": "", "norm": "x"}, "norm"), "norm", PARTS), needs(*PARTS))
    problem = subject.problem()
    assert not decompose_composites(problem)
    assert problem.accepted == 0
    assert len(subject.asked) <= 4 * len(PARTS)


def test_a_composite_that_diverges_only_in_one_piece_costs_one_question() -> None:
    subject = Subject(norm(), lambda g: PASS if "norm__sum" in g.calls else FAIL)
    assert not decompose_composites(subject.problem())
    assert len(subject.asked) == 1


def test_without_composites_nothing_is_asked() -> None:
    subject = Subject(graph(NORM, "b"), needs("b"))
    assert not decompose_composites(subject.problem())
    assert subject.asked == []


def test_in_a_graph_of_many_calls_composites_stay() -> None:
    reads = {"x": "", "norm": "x"} | {f"n{i}": f"n{i - 1}" if i else "norm" for i in range(20)}
    subject = Subject(composite(graph(reads, "n19"), "norm", PARTS), needs("n19"))
    assert not decompose_composites(subject.problem())
    assert subject.asked == []
