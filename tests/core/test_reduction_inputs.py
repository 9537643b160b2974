"""Inputs are cut to what the divergence needs, and their values become simple."""

from __future__ import annotations

import math

from bisector.core.outcome import Outcome
from bisector.core.reduction.inputs import SMALL, shrink_shapes, simplify_values, take_part
from tests.core.fakes import Graph, Subject, chain, graph, needs, reduced, where


def test_a_dimension_shrinks_to_the_next_power_of_two_that_holds() -> None:
    subject = Subject(chain(1, (64, 64)), where(lambda g: g.shape("x")[1] >= 3), worst=lambda g: (0,))
    left = reduced(subject, shrink_shapes)
    assert left.shape("x") == (1, 4)
    assert len(subject.asked) <= 4 * math.ceil(math.log2(64))


def test_what_is_kept_lies_around_the_worst_element() -> None:
    def holds(g: Graph) -> bool:
        return 37 in g.indices("x", 0)

    def worst(g: Graph) -> tuple[int, ...]:
        return (g.indices("x", 0).index(37),)

    subject = Subject(chain(1, (100,)), where(holds), worst)
    left = reduced(subject, shrink_shapes)
    assert left.indices("x", 0) == range(37, 38)
    assert len(subject.asked) <= 3


def test_two_elements_far_apart_that_two_compiles_need_are_kept_and_nothing_between_them() -> None:
    both = where(lambda g: {20, 73} <= set(g.indices("x", 0)))
    subject = Subject(chain(1, (100,)), both, worst=lambda g: (20,))
    problem = subject.problem()
    problem.also = [subject.result(subject.whole, Outcome.FAIL, worst=(73,))]
    shrink_shapes(problem)
    assert subject.whole.apply(problem.case).indices("x", 0) == range(20, 74, 53)
    assert len(subject.asked) <= 6


def test_all_dimensions_of_all_inputs_are_cut_at_once_where_that_will_do() -> None:
    whole = graph({"x": "", "y": "", "a": "x y"}, "a", (8, 64, 32))
    subject = Subject(whole, needs("a"), worst=lambda g: (5000,))
    left = reduced(subject, shrink_shapes)
    assert left.shape("x") == left.shape("y") == (1, 1, 1)
    assert len(subject.asked) == 2


def test_it_is_remembered_which_dimensions_could_not_be_shorter() -> None:
    subject = Subject(chain(1, (8, 64)), where(lambda g: g.shape("x")[1] == 64), worst=lambda g: (0,))
    problem = subject.problem()
    shrink_shapes(problem)
    assert problem.uncut["x", 1] == 64
    assert problem.info.length("x", 0) == 1


def test_without_a_worst_element_halves_are_tried() -> None:
    def holds(g: Graph) -> bool:
        return 200 in g.indices("x", 0)

    subject = Subject(chain(1, (256,)), where(holds))
    left = reduced(subject, shrink_shapes)
    assert left.shape("x")[0] <= 2 * SMALL
    assert len(subject.asked) <= 3 * math.ceil(math.log2(256))


def test_axes_that_must_stay_equal_are_cut_together() -> None:
    whole = graph({"x": "", "y": "", "a": "x y"}, "a", (64,))
    subject = Subject(whole, where(lambda g: g.shape("x") == g.shape("y")), worst=lambda g: (5,))
    left = reduced(subject, shrink_shapes)
    assert left.shape("x") == left.shape("y") == (1,)


def test_inputs_that_are_small_already_are_not_asked_about() -> None:
    subject = Subject(chain(1, (4, 4)), needs("n0"))
    reduced(subject, shrink_shapes)
    assert subject.asked == []


def test_values_become_as_simple_as_each_input_takes_them() -> None:
    whole = graph({"x": "", "y": "", "a": "x y"}, "a")
    simple = ("zeros", "ones", "integers", "digits:1")

    def holds(g: Graph) -> bool:
        x, y = (g.values.get(name, "") for name in ("x", "y"))
        return not x.startswith((*simple, "same", "only")) and y != "zeros"

    left = reduced(Subject(whole, where(holds)), simplify_values)
    assert left.values == {"x": "digits:2", "y": "ones"}


def test_the_value_that_all_elements_get_is_that_behind_the_worst_one() -> None:
    subject = Subject(
        chain(1, (4, 8)), where(lambda g: g.values.get("x") in (None, "same:21")), worst=lambda g: (21,)
    )
    assert reduced(subject, simplify_values).values == {"x": "same:21"}


def test_the_values_of_a_large_input_become_what_one_call_can_say() -> None:
    random = where(lambda g: g.values.get("x") not in ("zeros", "ones", "same:0"))
    subject = Subject(chain(1, (1000,)), random)
    assert reduced(subject, simplify_values).values == {"x": "randn"}
    assert len(subject.asked) == 4


def test_of_millions_of_elements_a_part_is_kept_that_is_still_whole_along_the_inner_axis() -> None:
    subject = Subject(chain(1, (64, 128, 1024)), needs("n0"), worst=lambda g: (0,))
    left = reduced(subject, take_part)
    assert left.shape("x")[-1] == 1024
    assert 1024 <= math.prod(left.shape("x")) <= 16_384
