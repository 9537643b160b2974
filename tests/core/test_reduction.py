"""Reduction against graphs whose divergence is one line: the answer, its cost, and that it never grows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.budget import BudgetSpent
from bisector.core.case import Case
from bisector.core.endings import QuestionsSpent
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.core.reduction.nodes import end_earlier, keep_one_output, start_later, take_out_nodes
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.reduce import reduce
from tests.core.fakes import Graph, Subject, chain, graph, needs, reduced, where

FAIL, PASS, UNRESOLVED = Outcome.FAIL, Outcome.PASS, Outcome.UNRESOLVED


def test_of_a_long_chain_the_needed_nodes_stay() -> None:
    subject = Subject(chain(64), needs("n30", "n33"))
    assert {"n30", "n33"} <= reduced(subject).calls <= {"n30", "n31", "n32", "n33"}
    # Two bisections, and a few questions for each of the nodes between them.
    assert len(subject.asked) <= 2 * math.ceil(math.log2(64)) + 16


def test_nodes_between_the_needed_ones_are_taken_out_where_a_read_can_go_past_them() -> None:
    assert reduced(Subject(chain(12), needs("n3", "n8"))).calls == {"n3", "n8"}


def test_a_graph_that_is_needed_whole_stays_and_costs_a_few_questions_for_each_node() -> None:
    names = [f"n{i}" for i in range(20)]
    subject = Subject(chain(20), needs(*names))
    assert reduced(subject).calls == set(names)
    assert len(subject.asked) <= 4 * 20  # one for each run of neighbours, and three for each node


@pytest.mark.parametrize("needed", [("n128", "n409"), ("n0", "n511"), ("n3", "n200", "n409")])
def test_hundreds_of_nodes_between_needed_ones_go_by_runs(needed: tuple[str, ...]) -> None:
    subject = Subject(chain(512), needs(*needed))
    assert reduced(subject).calls == set(needed)
    assert len(subject.asked) <= 2 * len(needed) * math.ceil(math.log2(512)) + 20


def test_a_run_of_layers_goes_though_no_node_of_it_can_go_alone() -> None:
    """Each layer widens and narrows again: past one call alone the shapes do not fit."""
    reads = {"x": ""}
    for i in range(16):
        before = f"n{i - 1}" if i else "x"
        reads |= {f"w{i}": before, f"n{i}": f"w{i}"}
    whole = graph(reads, "n15")

    def diverges(g: Graph) -> Outcome:
        if any((f"w{i}" in g.calls) != (f"n{i}" in g.calls) for i in range(16)):
            return UNRESOLVED
        return FAIL if {"n0", "n15"} <= g.calls else PASS

    assert reduced(Subject(whole, diverges)).calls == {"w0", "n0", "w15", "n15"}


def test_a_chain_may_end_at_its_first_node_and_begin_at_its_last() -> None:
    assert reduced(Subject(chain(16), needs("n0"))).calls == {"n0"}
    assert reduced(Subject(chain(16), needs("n15"))).calls == {"n15"}


def test_the_end_and_the_start_are_found_by_bisection() -> None:
    for run in (end_earlier, start_later):
        subject = Subject(chain(256), needs("n100"))
        reduced(subject, run)
        assert len(subject.asked) <= 1 + math.ceil(math.log2(256))


def test_a_branch_that_the_divergence_does_not_need_goes() -> None:
    whole = graph({"x": "", "y": "", "a": "x", "b": "y", "c": "b", "d": "a c", "e": "d"}, "e")
    left = reduced(Subject(whole, needs("a", "d")))
    assert left.calls == {"a", "d"}


def test_an_end_that_depends_on_more_of_the_graph_is_not_taken_for_an_earlier_one() -> None:
    # n5 comes before n6 and needs three calls beside n1, which is all that n6 needs.
    whole = graph(
        {
            "x": "", "n0": "x", "n1": "x", "n3": "x n1", "n4": "x", "n5": "x n3 n4", "n6": "n1", "n12": "n5",
            "n13": "n6 n12 n0",
        },
        "n13",
    )  # fmt: skip
    problem = Subject(whole, needs("n1")).problem()
    sizes: list[int] = []
    take = problem.accept

    def accept(trial: Trial) -> None:
        take(trial)
        sizes.append(len(whole.apply(trial.case).calls))

    problem.accept = accept  # type: ignore[method-assign]
    end_earlier(problem)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] == 1


def test_of_several_outputs_the_one_that_diverges_stays() -> None:
    whole = graph({"x": "", "a": "x", "b": "x", "c": "x"}, "a b c")
    problem = Subject(whole, where(lambda g: g.outputs[0] == "a")).problem()
    keep_one_output(problem)
    assert problem.case.outputs == ("a",)


def showing(subject: Subject, diverging: tuple[str, ...], agreeing: tuple[str, ...] = ()) -> Problem:
    """The subject with these paths measured."""
    problem = subject.problem()
    measured = [OutputMeasurement(0, p, "float32", (4,), 4) for p in (*diverging, *agreeing)]
    signatures = tuple(Signature(path, DivergenceKind.VALUE) for path in diverging)
    problem.default = ProbeResult(FAIL, Message(""), Measurement(outputs=tuple(measured)), signatures)
    return problem


def test_of_an_output_and_a_written_input_the_one_that_diverges_stays() -> None:
    whole = graph({"x": "", "s": "", "a": "x", "s_": "s a"}, "a")
    for paths, kept in ((("mutated[s]", "output[0]"), "s"), (("output[0]", "mutated[s]"), "a")):
        problem = showing(Subject(whole, where(lambda g: True)), paths[:1], paths[1:])
        keep_one_output(problem)
        assert problem.case.outputs == (kept,)


def test_of_two_written_inputs_that_diverge_one_is_chosen_for_good() -> None:
    whole = graph({"x": "", "s": "", "t": "", "a": "x", "s_": "s a", "t_": "t a"}, "a")
    problem = showing(Subject(whole, where(lambda g: True)), ("mutated[s]", "mutated[t]"))
    for _ in range(2):
        keep_one_output(problem)
        problem.default = showing(Subject(whole, needs()), ("output[0]", "mutated[t]")).default
    assert problem.case.outputs == ("s",)


def test_no_output_is_dropped_where_the_divergence_needs_two() -> None:
    whole = graph({"x": "", "a": "x", "b": "x"}, "a b")
    problem = Subject(whole, where(lambda g: set(g.outputs) == {"a", "b"})).problem()
    reduce(problem)
    assert set(Subject(whole, needs()).whole.apply(problem.case).outputs) == {"a", "b"}


def test_a_case_that_diverges_otherwise_is_not_taken() -> None:
    """Without n5 the graph still diverges, but as another bug: the study says UNRESOLVED, and so it stays."""
    subject = Subject(chain(16), lambda g: FAIL if "n5" in g.calls else UNRESOLVED)
    assert reduced(subject).calls == {"n5"}


def test_a_case_that_crashes_is_passed_over_and_the_search_goes_on() -> None:
    def diverges(g: Graph) -> Outcome:
        return UNRESOLVED if len(g.calls) in range(4, 9) else needs("n7", "n9")(g)

    problem = Subject(chain(24), diverges).problem()
    reduce(problem)
    left = Subject(chain(24), diverges).whole.apply(problem.case)
    assert diverges(left) is FAIL
    assert len(left.calls) < 24


def test_a_spent_budget_leaves_the_best_case_so_far() -> None:
    subject = Subject(chain(32), needs("n10"))
    problem = subject.problem()
    ask = subject.interesting

    def limited(case: Case) -> Trial:
        if len(subject.asked) >= 6:
            raise BudgetSpent(QuestionsSpent(6))
        return ask(case)

    problem.interesting = limited
    with pytest.raises(BudgetSpent):
        reduce(problem)
    left = subject.whole.apply(problem.case)
    assert problem.accepted > 0
    assert "n10" in left.calls
    assert len(left.calls) < 32


def test_a_node_that_only_small_inputs_make_needless_is_taken_out_in_the_second_round() -> None:
    def holds(g: Graph) -> bool:
        return g.calls >= {"n2", "n5"} and ("n4" in g.calls or g.shape("n5") == (1,))

    subject = Subject(chain(8, (64,)), where(holds), worst=lambda g: (0,))
    assert reduced(subject).calls == {"n2", "n5"}


def test_a_write_that_nothing_reads_again_does_not_keep_the_reduction_going_for_ever() -> None:
    whole = graph({"x": "", "add_": "x", "b": "x", "c": "b"}, "c")
    assert reduced(Subject(whole, needs("add_", "c"), most=200)).calls >= {"add_", "c"}


# -- any graph -----------------------------------------------------------------------------------------


@st.composite
def subjects(draw: st.DrawFn) -> tuple[Graph, frozenset[str]]:
    """A random graph of up to 14 nodes and the nodes that the divergence needs."""
    n = draw(st.integers(2, 14))
    reads = {"x": "", "y": ""}
    for i in range(n):
        earlier = list(reads)
        reads[f"n{i}"] = " ".join(
            draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=3, unique=True))
        )
    outputs = f"n{n - 1}"
    read = graph(reads, outputs).info.ancestors((outputs,))
    whole = graph(
        {k: v for k, v in reads.items() if k in read}, outputs, draw(st.sampled_from([(4,), (8, 8)]))
    )
    alive = sorted(whole.calls)
    return whole, draw(st.frozensets(st.sampled_from(alive), min_size=1, max_size=3))


@settings(max_examples=150, deadline=None)
@given(subjects())
def test_whatever_the_graph_it_ends_on_a_case_that_diverges_and_never_grew(
    given_subject: tuple[Graph, frozenset[str]],
) -> None:
    whole, needed = given_subject
    bug = needs(*needed)
    subject = Subject(whole, bug)
    problem = subject.problem()
    sizes = [len(whole.calls)]
    take = problem.accept

    def accept(trial):  # type: ignore[no-untyped-def]
        take(trial)
        sizes.append(len(whole.apply(trial.case).calls))

    problem.accept = accept  # type: ignore[method-assign]
    reduce(problem)
    left = whole.apply(problem.case)
    assert bug(left) is FAIL
    assert sizes == sorted(sizes, reverse=True)
    # Four passes over the nodes with four questions each; shapes and values take a few for each input.
    assert len(subject.asked) <= (16 * len(whole.calls) + 40 * len(left.info.inputs) + 40)


@settings(max_examples=60, deadline=None)
@given(subjects(), st.integers(0, 1 << 30))
def test_reduction_ends_where_outcomes_have_no_structure_at_all(
    given_subject: tuple[Graph, frozenset[str]], seed: int
) -> None:
    whole, _ = given_subject

    def diverges(g: Graph) -> Outcome:
        return (FAIL, PASS, UNRESOLVED)[
            hash((seed, frozenset(g.calls), tuple(sorted(g.windows.items())))) % 3
        ]

    subject = Subject(whole, diverges)
    problem = subject.problem()
    reduce(problem)
    assert problem.accepted == 0 or diverges(whole.apply(problem.case)) is FAIL


def test_taking_nodes_out_never_touches_what_is_returned() -> None:
    subject = Subject(chain(4), needs("n3"))
    problem = subject.problem()
    take_out_nodes(problem)
    assert subject.whole.apply(problem.case).outputs == ("n3",)
