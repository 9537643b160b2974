"""A graph's calls are written as people write them only where that makes the very same calls."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from bisector.core.case import Wording
from bisector.inductor.dispatched_ops import AtenCalls
from bisector.inductor.graph import public_calls
from bisector.inductor.graph.public_calls import in_public_calls
from bisector.inductor.graph.repro_spec import ReproSpec
from bisector.inductor.graph.source import function_source, verify
from bisector.inductor.write_scripts import write_repro

from .test_source import capture, late

aten, prims = torch.ops.aten, torch.ops.prims


def first_line(target: Any, *args: Any, **kwargs: Any) -> str:
    """The right-hand side of the one call of a graph, in public form; tensors are inputs of the graph."""
    graph = fx.Graph()
    inputs: list[torch.Tensor] = []

    def as_node(value: Any) -> Any:
        if isinstance(value, list):
            return [as_node(item) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        inputs.append(value)
        return graph.placeholder("xyzw"[len(inputs) - 1])

    nodes = [as_node(arg) for arg in args]
    call = graph.call_method if isinstance(target, str) else graph.call_function
    graph.output((call(target, tuple(nodes), {name: as_node(value) for name, value in kwargs.items()}),))
    gm = fx.GraphModule(nn.Module(), graph)
    source = function_source(in_public_calls(gm, inputs, [x.requires_grad for x in inputs]))
    verify(source, gm, inputs)
    return source.text.splitlines()[1].partition(" = ")[2]


X, Y = torch.rand(3, 3) + 1, torch.rand(3, 3) + 1
IMAGE, KERNEL = torch.rand(1, 1, 4, 4), torch.rand(1, 1, 2, 2)
INTEGERS = torch.tensor([1, 2, 3])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ((aten.mul.Tensor, X, Y), "x * y"),
        ((aten.div.Tensor, X, Y), "x / y"),
        ((aten.add.Tensor, X, 1.5), "x + 1.5"),
        ((aten.sub, X, Y), "x - y"),
        ((aten.mm.default, X, Y), "x @ y"),
        ((aten.neg.default, X), "-x"),
        ((aten.eq.Scalar, X, 0), "x == 0"),
        ((aten.bitwise_and.Scalar, INTEGERS, 1), "x & 1"),
        ((aten.rsub.Scalar, X, 1), "torch.rsub(x, 1)"),
        ((aten.exp.default, X), "torch.exp(x)"),
        ((aten.sum.dim_IntList, X, [0], True), "torch.sum(x, [0], True)"),
        ((aten._softmax.default, X, -1, False), "torch.softmax(x, -1)"),
        ((aten.cat.default, [X, Y], 0), "torch.cat([x, y])"),
        ((aten.linalg_vector_norm.default, X), "torch.linalg.vector_norm(x)"),
        ((aten.view.default, X, [-1]), "x.view([-1])"),
        ((aten.mul_.Tensor, X.clone(), 2.0), "x.mul_(2.0)"),
        ((aten.relu_.default, X.clone()), "x.relu_()"),
        ((torch.conv2d, IMAGE, KERNEL, None, (1, 1), (0, 0), (1, 1), 1), "torch.conv2d(x, y)"),
        ((torch.conv2d, IMAGE, KERNEL, None, (2, 2), (0, 0), (1, 1), 1), "torch.conv2d(x, y, None, (2, 2))"),
        ((F.layer_norm, X, (3,), None, None, 1e-5), "F.layer_norm(x, (3,))"),
        (("sum", X, -1, False), "x.sum(-1)"),
    ],
)  # fmt: skip
def test_a_call_is_written_in_its_shortest_public_form(call: tuple[Any, ...], text: str) -> None:
    assert first_line(*call) == text


def test_arguments_by_name_go_where_they_are_the_defaults() -> None:
    assert first_line(aten.gelu.default, X, approximate="tanh") == 'F.gelu(x, approximate="tanh")'
    assert first_line(aten.gelu.default, X, approximate="none") == "F.gelu(x)"
    assert first_line(torch.softmax, X, dim=-1, dtype=None) == "torch.softmax(x, dim=-1)"
    assert first_line(aten.add.Tensor, X, Y, alpha=2) == "torch.add(x, y, alpha=2)"


def test_an_argument_stays_whose_default_a_reader_would_be_warned_of() -> None:
    softmax = torch.nn.functional.softmax
    assert first_line(softmax, torch.ones(2, 3), dim=1) == "F.softmax(x, dim=1)"



@pytest.mark.parametrize(
    "call",
    [
        (prims.convert_element_type.default, X, torch.float16),
        (prims.mul.default, X, Y),
        (aten.slice.Tensor, X, 0, 1, 2),
        (aten._unsafe_view.default, X, [9]),
        (aten.rand.default, [3]),
    ],
)
def test_what_has_no_exact_public_form_stays(call: tuple[Any, ...]) -> None:
    assert first_line(*call).startswith("torch.ops.")


def test_what_dynamo_takes_apart_stays() -> None:
    with AtenCalls([X, Y]) as public, torch.no_grad():
        torch.addcdiv(X, Y, X, value=2.0)
    assert [name for name, _ in public.calls] == ["aten.addcdiv.default"]  # eager alone does not tell
    assert first_line(aten.addcdiv.default, X, Y, X, value=2.0).startswith("torch.ops.aten.addcdiv")
    assert first_line(aten.addcdiv.default, X, Y, X) == "torch.addcdiv(x, y, z)"


def test_gradients_are_part_of_what_is_compared() -> None:
    assert first_line(aten.mul.Tensor, X.clone().requires_grad_(), Y) == "x * y"
    assert first_line(aten.gelu.default, X.clone().requires_grad_()) == "F.gelu(x)"


def numbers(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = aten.mul.Tensor(x, 2.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = aten.mm.default(x, y)
    noise = torch.rand(3, 3)
    first, second = aten.split.Tensor(noise, 2)
    x[0] = aten.sum.default(first)
    return z, x + second.sum(), y.size(0), x.shape[0] * y


@pytest.mark.parametrize("dynamic", [False, True])
def test_regions_states_and_sizes_are_as_they_were(dynamic: bool) -> None:
    gm, inputs = capture(numbers, torch.rand(3, 3), dynamic=dynamic)
    before = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    public = in_public_calls(gm, inputs, [False] * len(inputs))
    assert (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) == before
    assert [node.name for node in public.graph.nodes] == [node.name for node in gm.graph.nodes]
    source = function_source(public)
    assert "x * 2.0" in source.text and "torch.split(noise, 2)" in source.text
    verify(source, gm, inputs)


def test_the_random_numbers_that_follow_are_not_touched() -> None:
    gm, inputs = capture(lambda x: torch.rand(2) + aten.mul.Tensor(x, x), torch.ones(2))
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    in_public_calls(gm, inputs, [False])
    assert torch.equal(torch.rand(3), expected)


def test_a_graph_that_nobody_reads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    gm, inputs = capture(lambda x: aten.mul.Tensor(x, x), torch.ones(2))
    monkeypatch.setattr(public_calls, "MOST_ELEMENTS", 1)
    assert in_public_calls(gm, inputs, [False]) is gm
    monkeypatch.undo()
    monkeypatch.setattr(public_calls, "MOST_CALLS", 0)
    assert in_public_calls(gm, inputs, [False]) is gm


def test_the_repro_has_public_calls_unless_it_is_asked_for_the_captured_ones() -> None:
    gm, inputs = capture(lambda x: (aten.mul.Tensor(x, x),), torch.ones(2))
    public = ReproSpec(gm, inputs, [(0.0, 0.0)])
    captured = ReproSpec(gm, inputs, [(0.0, 0.0)], wording=Wording.CAPTURED)
    assert "= x * x\n" in write_repro(public)
    assert "= torch.ops.aten.mul.Tensor(x, x)\n" in write_repro(captured)


def calls(function: Callable[..., Any], *args: Any) -> Any:
    with AtenCalls(args) as listed:
        function(*args)
    return listed.calls


def test_calls_are_told_apart_by_arguments_and_by_where_tensors_come_from() -> None:
    assert calls(operator.sub, X, Y) == calls(aten.sub.Tensor, X, Y)
    assert calls(operator.sub, X, Y) != calls(lambda x, y: y - x, X, Y)
    assert calls(operator.add, X, 1) != calls(operator.add, X, 1.0)
    assert calls(lambda x: x.sum(0), X) == calls(lambda x: torch.sum(x, dim=[0], keepdim=False), X)
    assert calls(lambda x: (x.exp() + x.sin()), X) != calls(lambda x: x.exp() + x.exp() * 0 + x.sin(), X)


def test_a_value_of_an_aten_op_is_called_as_the_op() -> None:
    gm, inputs = capture(lambda x: aten.sum.dim_IntList(aten.mul.Tensor(x, x), [0]), torch.ones(2))
    for graph in (gm, in_public_calls(gm, inputs, [False])):
        assert "    mul = " in (text := function_source(graph).text)
        assert "    sum_1 = " in text


def test_a_chain_keeps_the_names_of_its_nodes() -> None:
    gm = late("ceil_3", "ceil_9")
    assert function_source(in_public_calls(gm, [torch.ones(2)], [False])).text == function_source(gm).text
