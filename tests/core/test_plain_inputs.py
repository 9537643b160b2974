"""Inputs as plain as the divergence leaves them, for a question or two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisector.core.outcome import Outcome
from bisector.core.reduction.inputs import STRIDES_GIVE_UP_AFTER, make_contiguous, simplify_dtype
from bisector.core.reduction.reduce import reduce
from tests.core.fakes import Diverges, Graph, Subject, chain, graph

FAIL, PASS = Outcome.FAIL, Outcome.PASS


def odd(g: Graph) -> set[str]:
    return {n.name for n in g.info.inputs if not n.contiguous}


def needs_odd(*names: str) -> Diverges:
    """Diverges while these inputs lie oddly."""
    return lambda g: FAIL if set(names) <= odd(g) else PASS


def made_contiguous(subject: Subject) -> Graph:
    problem = subject.problem()
    make_contiguous(problem)
    return subject.whole.apply(problem.case)


def inputs(n: int) -> Graph:
    names = [f"x{i}" for i in range(n)]
    return graph(dict.fromkeys(names, "") | {"a": " ".join(names)}, "a", odd=" ".join(names))


def test_odd_inputs_become_contiguous_by_one_question() -> None:
    subject = Subject(inputs(3), needs_odd())
    assert odd(made_contiguous(subject)) == set()
    assert len(subject.asked) == 1


def test_an_input_whose_strides_the_divergence_needs_keeps_them() -> None:
    subject = Subject(inputs(3), needs_odd("x1"))
    assert odd(made_contiguous(subject)) == {"x1"}
    assert len(subject.asked) == 4  # all, then each


def test_of_many_inputs_that_need_their_strides_a_few_are_asked_about() -> None:
    names = [f"x{i}" for i in range(20)]
    subject = Subject(inputs(20), needs_odd(*names))
    assert odd(made_contiguous(subject)) == set(names)
    assert len(subject.asked) == 1 + STRIDES_GIVE_UP_AFTER


def test_where_every_input_is_contiguous_nothing_is_asked() -> None:
    subject = Subject(chain(2), needs_odd())
    made_contiguous(subject)
    assert subject.asked == []


def test_a_reduction_leaves_the_strides_that_are_needed_and_no_others() -> None:
    whole = graph({"x": "", "y": "", "a": "x y", "b": "a"}, "b", (8, 8), odd="x y")
    subject = Subject(whole, needs_odd("y"))
    problem = subject.problem()
    reduce(problem)
    assert odd(whole.apply(problem.case)) == {"y"}


def dtypes(g: Graph) -> set[str | None]:
    return {n.dtype for n in g.info.inputs}


def of_dtype(dtype: str) -> Graph:
    whole = graph({"x": "", "y": "", "a": "x y"}, "a")
    return replace(whole, nodes=tuple(replace(n, dtype=dtype) for n in whole.nodes))


def with_plain_dtypes(subject: Subject, anchored: bool = True) -> Graph:
    problem = subject.problem()
    problem.anchored = anchored
    simplify_dtype(problem)
    return subject.whole.apply(problem.case)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_all_floating_point_inputs_become_float32_by_one_question(dtype: str) -> None:
    subject = Subject(of_dtype(dtype), lambda g: FAIL)
    assert dtypes(with_plain_dtypes(subject)) == {"float32"}
    assert len(subject.asked) == 1


def test_where_the_dtype_is_the_cause_it_stays() -> None:
    subject = Subject(of_dtype("bfloat16"), lambda g: FAIL if "bfloat16" in dtypes(g) else PASS)
    assert dtypes(with_plain_dtypes(subject)) == {"bfloat16"}


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_inputs_that_are_float32_or_no_floats_are_not_asked_about(dtype: str) -> None:
    subject = Subject(of_dtype(dtype), lambda g: FAIL)
    with_plain_dtypes(subject)
    assert subject.asked == []


def test_without_a_repair_to_hold_the_case_to_its_bug_the_dtype_is_not_asked_about() -> None:
    subject = Subject(of_dtype("bfloat16"), lambda g: FAIL)
    with_plain_dtypes(subject, anchored=False)
    assert subject.asked == []
