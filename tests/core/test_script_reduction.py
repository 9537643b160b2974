"""The passes that leave graphs and calls of a script uncompiled, against truths that are written down."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bisector.core.case import WHOLE, Case
from bisector.core.decision import Decision, DecisionId
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reasons import SILENT
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.script import (
    MOST_RUNS,
    compiled_alone,
    fewest_calls,
    fewest_graphs,
    up_to_the_first_call,
)
from bisector.core.search_notes import CallsCompiledAlone, EndedAtCall, GraphsCompiledAlone
from tests.core.measurements import judged

GRAPHS, CALLS = (1, 2, 3), (0, 1, 2, 3)


class Truth:
    """The script diverges where all of `needed` are compiled; an empty tuple in a case means all are."""

    def __init__(self, graphs: Sequence[int] = (), calls: Sequence[int] = (), unseen: bool = False) -> None:
        self.graphs, self.calls = set(graphs), set(calls)
        self.every: Sequence[int] = GRAPHS
        self.unseen = unseen  # a graph without decisions has a part in it
        self.asked: list[Case] = []

    def __call__(self, case: Case) -> Trial:
        self.asked.append(case)
        run = {call for call in case.calls or CALLS if case.until is None or call <= case.until}
        compiled = self.graphs <= set(case.graphs or self.every) and self.calls <= run
        outcome = Outcome.FAIL if compiled and not (self.unseen and case.graphs) else Outcome.PASS
        return Trial(case, outcome, judged(outcome))


def problem(truth: Truth, graphs: Sequence[int] = GRAPHS, calls: Sequence[int] = CALLS) -> Problem:
    outputs = tuple(OutputMeasurement(i, f"call[{i}].output[0]", "float32", (1,), 1) for i in calls)
    decisions = tuple(Decision(DecisionId.of("fma", "add", "mul").in_graph(number)) for number in graphs)
    shown = Signature(f"call[{calls[-1]}].output[0]", DivergenceKind.VALUE) if calls else None
    default = ProbeResult(
        Outcome.FAIL, SILENT, Measurement(outputs, decisions), () if shown is None else (shown,)
    )
    no_graph: Any = None
    return Problem(WHOLE, default, truth, no_graph)


def subsets(of: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for size in range(1, len(of) + 1) for chosen in itertools.combinations(of, size)]


@pytest.mark.parametrize("needed", subsets(GRAPHS))
def test_the_graphs_that_are_needed_stay(needed: tuple[int, ...]) -> None:
    found = problem(Truth(graphs=needed))
    fewest_graphs(found)
    assert found.case == (WHOLE if needed == GRAPHS else WHOLE.with_graphs(*needed))


@pytest.mark.parametrize("needed", subsets(CALLS))
def test_the_calls_that_are_needed_stay(needed: tuple[int, ...]) -> None:
    found = problem(Truth(calls=needed))
    fewest_calls(found)
    assert found.case in (WHOLE, WHOLE.with_calls(*needed))
    assert (found.case == WHOLE) == (needed == CALLS)


def of_calls(truth: Truth, calls: Sequence[int], diverging: Sequence[int]) -> Problem:
    """The problem with these calls, of which some diverge."""
    whole = problem(truth, calls=calls)
    shown = tuple(Signature(f"call[{at}].output[0]", DivergenceKind.VALUE) for at in diverging)
    return replace(whole, default=replace(whole.default, signatures=shown))


def test_a_script_ends_after_the_first_call_that_diverges() -> None:
    found = of_calls(Truth(), calls=(0, 1, 2, 10, 11), diverging=(2, 10))
    up_to_the_first_call(found)
    assert found.case == WHOLE.with_end(2)


def test_the_fewest_graphs_are_looked_for_up_to_that_call() -> None:
    found = problem(Truth(graphs=(2,)))
    found.case = WHOLE.with_end(2)
    fewest_graphs(found)
    assert found.case == WHOLE.with_end(2).with_graphs(2)


def test_the_graphs_of_the_call_that_it_ends_with_are_tried_first() -> None:
    truth = Truth(graphs=(37, 40))
    truth.every = range(1, 41)
    found = problem(truth, graphs=truth.every)
    found.case = WHOLE.with_end(2)
    fewest_graphs(found)
    assert found.case == WHOLE.with_end(2).with_graphs(37, 40)
    assert len(truth.asked) <= 9


@pytest.mark.parametrize("diverging", [(), (3,)])
def test_it_comes_to_its_own_end_where_the_last_call_diverges_or_none(diverging: tuple[int, ...]) -> None:
    truth = Truth()
    up_to_the_first_call(of_calls(truth, calls=CALLS, diverging=diverging))
    assert truth.asked == []


def test_it_comes_to_its_own_end_where_it_does_not_diverge_before() -> None:
    found = of_calls(Truth(calls=(3,)), calls=CALLS, diverging=(1,))
    up_to_the_first_call(found)
    assert found.case == WHOLE


def test_where_a_graph_without_decisions_has_a_part_in_it_the_whole_stays() -> None:
    found = problem(Truth(unseen=True))
    fewest_graphs(found)
    assert found.case == WHOLE


def test_one_graph_or_call_is_not_asked_about() -> None:
    truth = Truth()
    fewest_graphs(problem(truth, graphs=(1,)))
    fewest_calls(problem(truth, calls=(0,)))
    assert truth.asked == []


def test_a_loop_of_which_every_call_is_needed_ends_after_some_runs() -> None:
    truth = Truth(calls=range(100))
    found = problem(truth, calls=range(100))
    fewest_calls(found)
    assert found.case == WHOLE
    assert len(truth.asked) <= MOST_RUNS


def test_what_is_compiled_is_noted_with_places_from_1() -> None:
    default = problem(Truth()).default
    assert compiled_alone(default, WHOLE.with_graphs(2)) == [GraphsCompiledAlone((2,), 3)]
    assert compiled_alone(default, WHOLE.with_calls(1, 3)) == [CallsCompiledAlone((2, 4), 4)]
    assert compiled_alone(default, WHOLE.with_end(1)) == [EndedAtCall(2, 4)]
