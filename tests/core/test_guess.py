"""The smallest case that a followed run suggests, and what is asked where it is right and where it is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bisector.core.case import Case
from bisector.core.outcome import Outcome
from bisector.core.reduction.guess import take_guess, values_seen
from bisector.core.reduction.problem import Problem, ValuesSeen
from bisector.core.reduction.reduce import reduce
from bisector.core.trace import NodeTrace, Trace
from tests.core.fakes import Diverges, Graph, Subject, chain, graph, needs, where


def guessed(subject: Subject, decisive: Iterable[str], differing: Iterable[str], **values: object) -> Problem:
    seen = ValuesSeen(frozenset(), tuple(differing), None)
    problem = subject.problem()
    problem.values = replace(seen, **values)  # type: ignore[arg-type]
    problem.decisive = frozenset(decisive)
    return problem


def kept(subject: Subject, problem: Problem) -> Graph:
    return subject.whole.apply(problem.case)


def test_from_the_decisive_node_to_the_first_that_differs_and_around_the_worst_element() -> None:
    subject = Subject(chain(12, (8, 64)), needs("n5", "n7"), worst=lambda g: (100,))
    problem = guessed(subject, ["n5"], ["n7", "n11"])
    take_guess(problem)
    left = kept(subject, problem)
    assert left.calls == {"n5", "n6", "n7"}
    assert left.shape("n4") == (1, 1)
    assert left.indices("n4", 0) == range(1, 2) and left.indices("n4", 1) == range(36, 37)
    assert len(subject.asked) <= 8


def test_without_decisions_it_begins_where_the_difference_arises() -> None:
    subject = Subject(chain(6), needs("n2", "n3"))
    problem = guessed(subject, [], ["n3"], origin="n2")
    take_guess(problem)
    assert kept(subject, problem).calls == {"n2", "n3"}


def test_a_decision_that_needs_what_else_reads_the_same_is_guessed_with_all_before_the_end() -> None:
    whole = graph({"x": "", "a": "x", "m": "a", "b": "x", "c": "b m", "d": "c"}, "d")
    subject = Subject(whole, needs("a", "b", "c"))
    problem = guessed(subject, ["b"], ["c"])
    take_guess(problem)
    assert kept(subject, problem).calls == {"a", "m", "b", "c"}


def test_a_guess_that_agrees_changes_nothing() -> None:
    subject = Subject(chain(12), needs("n1", "n11"))
    problem = guessed(subject, ["n5"], ["n7"])
    take_guess(problem)
    assert problem.accepted == 0
    assert len(subject.asked) <= 2


def test_the_smallest_window_that_diverges_is_taken() -> None:
    diverges: Diverges = where(lambda g: g.shape("x")[1] >= 5)
    subject = Subject(chain(2, (8, 64)), diverges, worst=lambda g: (0,))
    problem = guessed(subject, ["n0"], ["n1"])
    take_guess(problem)
    assert kept(subject, problem).shape("x") == (1, 8)


def test_where_the_guess_holds_a_reduction_asks_little_and_where_it_does_not_it_finds_the_same() -> None:
    def subject() -> Subject:
        return Subject(chain(64, (8, 64)), needs("n20", "n22"), worst=lambda g: (100,))

    right, wrong, none = subject(), subject(), subject()
    problems = [guessed(right, ["n20"], ["n22"]), guessed(wrong, ["n50"], ["n60"]), none.problem()]
    for problem in problems:
        reduce(problem)
    found = [kept(one, problem) for one, problem in zip((right, wrong, none), problems, strict=True)]
    assert {frozenset(left.calls) for left in found} == {frozenset({"n20", "n22"})}
    assert {left.shape("n19") for left in found} == {(1, 1)}
    assert len(right.asked) < len(none.asked) and len(wrong.asked) <= len(none.asked) + 5


def test_a_case_without_a_node_that_is_needed_is_not_asked_about() -> None:
    subject = Subject(chain(6), needs("n2", "n5"))
    problem = subject.problem()
    problem.needed = frozenset({"n2"})
    reduce(problem)
    edits = [edit for case in subject.asked for edit in (*case.cut, *(name for name, _ in case.bypass))]
    assert kept(subject, problem).calls == {"n2", "n5"} and "n2" not in edits


def test_an_end_at_which_the_two_runs_are_equal_is_not_asked_about() -> None:
    subject = Subject(chain(6), needs("n3"))
    problem = guessed(subject, ["nowhere"], [], equal=frozenset({"n0", "n1", "n2"}))
    reduce(problem)
    ends = {case.outputs for case in subject.asked}
    assert kept(subject, problem).calls == {"n3"} and ends.isdisjoint({("n0",), ("n1",), ("n2",)})


def test_of_a_followed_run_it_is_seen_which_nodes_are_equal_and_which_differ() -> None:
    nodes = (
        NodeTrace("a", "op", "", ("x",), True),
        NodeTrace("hidden", "op", "", ("a",), False),
        NodeTrace("b", "op", "", ("hidden",), True, arises=True, difference=1e-7),
        NodeTrace("c", "op", "", ("b",), True, difference=0.5),
        NodeTrace("aside", "op", "", ("x",), True, difference=0.5),
    )
    info = chain(1).info
    seen = values_seen(Trace(nodes, {"output[0]": "c"}), info, ["output[0]"], lambda dtype: 1e-5)
    assert seen == ValuesSeen(frozenset({"a"}), ("c",), "b")
    of_gradients = values_seen(Trace(nodes, {"grad[x]": "c"}), info, ["grad[x]"], lambda dtype: 1e-5)
    assert of_gradients.equal == frozenset(), "what is equal on the way there may have another gradient"


def test_nothing_is_asked_where_the_run_was_not_followed() -> None:
    subject = Subject(chain(3), needs("n1"))
    take_guess(subject.problem())
    assert subject.asked == []


def test_cases_that_are_asked_at_once_are_each_asked_once() -> None:
    subject = Subject(chain(3), where(lambda g: False))
    assert subject.interesting(Case()).outcome is Outcome.PASS
    subject.asked.clear()
    problem = subject.problem()
    assert not problem.first_at_once([Case(outputs=("n1",)), Case(outputs=("n1",)), Case(outputs=("n0",))])
    assert subject.asked == [Case(outputs=("n1",)), Case(outputs=("n0",))]
