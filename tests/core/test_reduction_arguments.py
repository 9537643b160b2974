"""What calls can do without: arguments that have a default, and inputs that can be a number."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.reduction.reduce import GIVE_UP_AFTER, leave_out_arguments, reduce, use_numbers
from tests.core.fakes import Diverges, Graph, Subject, graph, reduced, where

Kind = str  # `optional` or `numeric`


def with_arguments(whole: Graph, kind: Kind, **arguments: str) -> Graph:
    """`norm="w b"`: the call `norm` reads `w` and `b` in arguments of that kind, at the places 1 and 2."""
    of_kind = {name: tuple(enumerate(reads.split(), start=1)) for name, reads in arguments.items()}
    nodes = (replace(n, **{kind: of_kind[n.name]}) if n.name in of_kind else n for n in whole.nodes)  # type: ignore[arg-type]
    return replace(whole, nodes=tuple(nodes))


def with_shape(whole: Graph, name: str, shape: tuple[int, ...], dtype: str = "float32") -> Graph:
    nodes = (replace(n, shape=shape, dtype=dtype) if n.name == name else n for n in whole.nodes)
    return replace(whole, nodes=tuple(nodes))


def inputs(g: Graph) -> set[str]:
    return {n.name for n in g.info.inputs}


def needs(*names: str) -> Diverges:
    """Diverges while these inputs are read."""
    return where(lambda g: inputs(g) >= set(names))


NORM = with_arguments(
    graph({"x": "", "w": "", "b": "", "norm": "x w b", "v": "", "linear": "norm v"}, "linear"),
    "optional",
    norm="w b",
    linear="v",
)
SCALED = with_arguments(graph({"x": "", "w": "", "mul": "x w"}, "mul", (2, 8)), "numeric", mul="w")


def test_all_arguments_that_have_a_default_are_left_out_with_one_question() -> None:
    subject = Subject(NORM, needs("x"))
    left = reduced(subject, leave_out_arguments)
    assert inputs(left) == {"x"}
    assert set(left.arguments.values()) == {"default"}
    assert len(subject.asked) == 1


def test_the_one_argument_that_is_needed_stays() -> None:
    subject = Subject(NORM, needs("b"))
    assert inputs(reduced(subject, leave_out_arguments)) == {"x", "b"}
    assert len(subject.asked) <= 1 + 3


def test_an_argument_goes_first_that_takes_the_most_elements_along() -> None:
    subject = Subject(with_shape(NORM, "b", (4, 4)), where(lambda g: len(inputs(g)) >= 3))
    assert "b" not in inputs(reduced(subject, leave_out_arguments))


def test_a_call_that_only_an_argument_read_goes_with_it() -> None:
    whole = graph({"x": "", "y": "", "scale": "y", "norm": "x scale"}, "norm")
    left = reduced(Subject(with_arguments(whole, "optional", norm="scale"), needs("x")), leave_out_arguments)
    assert left.calls == {"norm"}
    assert inputs(left) == {"x"}


def test_an_argument_of_a_call_that_is_gone_is_not_asked_about() -> None:
    whole = graph({"x": "", "y": "", "z": "", "inner": "y z", "norm": "x inner"}, "norm")
    whole = with_arguments(whole, "optional", norm="inner", inner="z")
    apart = {("norm", 1), ("inner", 1)}
    subject = Subject(whole, where(lambda g: set(g.arguments) != apart))
    reduced(subject, leave_out_arguments)
    assert len(subject.asked) == 2


def test_an_operand_becomes_the_number_one_where_that_will_do() -> None:
    left = reduced(Subject(SCALED, needs("x")), use_numbers)
    assert left.arguments == {("mul", 1): "one"}
    assert inputs(left) == {"x"}


def test_or_else_it_becomes_what_it_holds_behind_the_worst_element() -> None:
    exact = where(lambda g: g.arguments.get(("mul", 1)) in (None, "item:11"))
    subject = Subject(SCALED, exact, worst=lambda g: (11,))
    assert reduced(subject, use_numbers).arguments == {("mul", 1): "item:11"}
    assert len(subject.asked) == 3


def test_of_the_number_as_few_digits_are_kept_as_will_do() -> None:
    short = where(lambda g: g.arguments.get(("mul", 1)) != "one")
    left = reduced(Subject(SCALED, short, worst=lambda g: (11,)), use_numbers)
    assert left.arguments == {("mul", 1): "item:11:2"}


def test_an_input_that_is_read_twice_becomes_a_number_in_both_places_or_in_none() -> None:
    whole = graph({"x": "", "w": "", "mul": "x w", "add": "mul w"}, "add")
    both = with_arguments(whole, "numeric", mul="w", add="w")
    assert inputs(reduced(Subject(both, needs("x")), use_numbers)) == {"x"}
    subject = Subject(with_arguments(whole, "numeric", mul="w"), needs("x"))
    reduced(subject, use_numbers)
    assert subject.asked == []


def test_an_operand_that_gives_the_result_its_shape_or_dtype_stays() -> None:
    for whole in (with_shape(SCALED, "x", (8,)), with_shape(SCALED, "x", (2, 8), "bfloat16")):
        subject = Subject(whole, needs())
        reduced(subject, use_numbers)
        assert subject.asked == []


def test_what_is_no_input_or_is_returned_too_is_no_number() -> None:
    computed = graph({"x": "", "y": "", "w": "y", "mul": "x w"}, "mul")
    returned = graph({"x": "", "w": "", "mul": "x w"}, "mul w")
    for whole in (computed, returned):
        subject = Subject(with_arguments(whole, "numeric", mul="w"), needs())
        reduced(subject, use_numbers)
        assert subject.asked == []


def test_where_nothing_can_be_left_out_a_bounded_number_of_questions_is_asked() -> None:
    reads, arguments = {"x": ""}, {}
    for i in range(40):
        reads |= {f"w{i}": "", f"n{i}": f"{f'n{i - 1}' if i else 'x'} w{i}"}
        arguments[f"n{i}"] = f"w{i}"
    whole = graph(reads, "n39")
    everything = needs(*(name for name in reads if name.startswith("w")))
    optional = Subject(with_arguments(whole, "optional", **arguments), everything)
    reduced(optional, leave_out_arguments)
    assert len(optional.asked) <= 1 + GIVE_UP_AFTER
    numeric = Subject(with_arguments(whole, "numeric", **arguments), everything)
    reduced(numeric, use_numbers)
    assert len(numeric.asked) <= 3 * GIVE_UP_AFTER


def test_the_whole_reduction_leaves_arguments_out_before_it_cuts_shapes() -> None:
    whole = replace(NORM, nodes=tuple(replace(n, shape=(64, 64)) for n in NORM.nodes))

    def holds(g: Graph) -> bool:
        return {"norm", "linear"} <= g.calls and "w" in inputs(g)

    subject = Subject(whole, where(holds), worst=lambda g: (0,))
    left = reduced(subject, reduce)
    assert inputs(left) == {"x", "w"}
    assert left.shape("x") == (1, 1)
    without = [case for case in subject.asked if not case.arguments and case.slices]
    assert without == []


def test_what_only_small_inputs_make_needless_is_left_out_in_the_second_round() -> None:
    def holds(g: Graph) -> bool:
        return {"norm", "linear"} <= g.calls and ("v" in inputs(g) or g.shape("x") == (1,))

    whole = replace(NORM, nodes=tuple(replace(n, shape=(64,)) for n in NORM.nodes))
    left = reduced(Subject(whole, where(holds), worst=lambda g: (0,)), reduce)
    assert inputs(left) == {"x"}
