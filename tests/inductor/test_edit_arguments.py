"""Arguments that a call can do without: which they are, for real calls, and what is left without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from bisector.core.case import WHOLE, Case, Slice
from bisector.inductor.graph.arguments import defaults, numeric
from bisector.inductor.graph.edit import CannotEdit, Edited
from tests.inductor.test_edit import Captured, calls, run

X = torch.arange(12.0).reshape(3, 4)
W, B = torch.tensor([0.5, -2.0, 3.25, 7.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])


def traced(call: Callable[..., Any]) -> Any:
    return next(n for n in torch.fx.symbolic_trace(call).graph.nodes if n.op.startswith("call"))


@pytest.mark.parametrize(
    ("call", "places"),
    [
        (lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-5), {"weight": None, "bias": None}),
        (lambda x, w, b: F.layer_norm(x, (4,), bias=b), {"bias": None}),
        (lambda x, w, b: F.linear(x, w, b), {2: None}),
        (lambda x, w, b: F.conv2d(x, w, b, (1, 1)), {2: None}),
        (lambda x, w, b: torch.conv2d(x, w, bias=b), {"bias": None}),
        (lambda x, w, b: torch.ops.aten.linear.default(x, w, b), {2: None}),
        (lambda x, w, b: F.batch_norm(x, w, w, w, b, True), {"weight": None, "bias": None}),
        (lambda x, w, b: F.scaled_dot_product_attention(x, x, x, attn_mask=w), {"attn_mask": None}),
        (lambda x, w, b: x.clamp(min=w), {"min": None}),
        (lambda x, w, b: F.cross_entropy(x, w, b), {"weight": None}),
        (lambda x, w, b: torch.addmm(b, x, w), {}),
        (lambda x, w, b: x * w, {}),
        (lambda x, w, b: torch.where(x, w, b), {}),
        (lambda x, w, b: torch.cat([x, w]), {}),
        (lambda x, w, b: x.softmax(-1, dtype=torch.float64), {}),
    ],
)
def test_an_argument_that_reads_a_node_can_be_left_out_where_the_call_has_a_default_for_it(
    call: Callable[..., Any], places: dict[Any, Any]
) -> None:
    assert defaults(traced(call)) == places


@pytest.mark.parametrize(
    ("call", "places"),
    [
        (lambda x, w: x * w, [0, 1]),
        (lambda x, w: x == w, [0, 1]),
        (lambda x, w: torch.mul(x, w), [1]),
        (lambda x, w: torch.sub(x, other=w), ["other"]),
        (lambda x, w: torch.pow(x, w), [0, 1]),
        (lambda x, w: torch.ops.aten.div.Tensor(x, w), [1]),
        (lambda x, w: torch.where(x > 0, x, w), [1, 2]),
        (lambda x, w: x.add(w), [1]),
        (lambda x, w: x.pow(w), [1]),
        (lambda x, w: x.add_(w), [1]),
        (lambda x, w: x.add(w, alpha=2), [1]),
        (lambda x, w: torch.lerp(x, x, w), [2]),
        (lambda x, w: torch.maximum(x, w), []),
        (lambda x, w: x @ w, []),
        (lambda x, w: x[w], []),
        (lambda x, w: torch.relu(x), []),
        (lambda x, w: F.embedding(x, w), []),
    ],
)
def test_an_operand_can_be_a_number_where_the_call_takes_one(call: Callable[..., Any], places: Any) -> None:
    graph = torch.fx.symbolic_trace(call).graph
    node = [n for n in graph.nodes if n.op.startswith("call")][-1]
    assert set(numeric(node)) == set(places)


def test_of_a_function_without_schema_and_signature_nothing_is_known() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.Tensor.__new__, (x, x))
    assert (defaults(node), numeric(node)) == ({}, [])


def normed(x: Any, w: Any, b: Any) -> Any:
    return torch.relu(F.layer_norm(x, (4,), w * 2, b))


@pytest.fixture(scope="module")
def captured() -> Captured:
    return Captured(normed, X, W, B)


def edited(captured: Captured, *arguments: tuple[str, int | str, str]) -> Edited:
    return captured.apply(Case(arguments=arguments))


def test_an_argument_that_is_left_out_takes_along_what_only_it_read(captured: Captured) -> None:
    without_scale = edited(captured, ("layer_norm", 2, "default"))
    assert without_scale.input_names() == ["l_x_", "l_b_"]
    assert "mul" not in calls(without_scale.gm)
    assert torch.equal(run(without_scale)[0], torch.relu(F.layer_norm(X, (4,), None, B)))
    without_both = edited(captured, ("layer_norm", 2, "default"), ("layer_norm", 3, "default"))
    assert torch.equal(run(without_both)[0], torch.relu(F.layer_norm(X, (4,))))


@pytest.mark.parametrize(("instead", "number"), [("one", 1.0), ("item:2", 3.25), ("item:2:1", 3.0)])
def test_a_number_stands_for_an_input_that_is_then_gone(instead: str, number: float) -> None:
    left = edited(Captured(lambda x, w: x / w, X, W), ("truediv", 1, instead))
    assert left.input_names() == ["l_x_"]
    assert torch.equal(run(left)[0], X / number)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_a_number_leaves_the_dtype_of_the_result(dtype: Any) -> None:
    left = edited(Captured(lambda x, w: x * w, X.to(dtype), W.to(dtype)), ("mul", 1, "item:1"))
    assert run(left)[0].dtype is dtype
    assert torch.equal(run(left)[0], X.to(dtype) * -2)


def test_a_number_is_that_of_the_input_before_it_was_cut_in_the_same_case() -> None:
    captured = Captured(lambda x, w: (x + 1) * (w + w), X, W)
    case = WHOLE.with_cut("add_1").with_argument("mul", 1, "item:3").with_slice(Slice("l_x_", 1, 0, 1))
    left = captured.apply(case)
    assert torch.equal(run(left)[0], (X[:, :1] + 1) * 14)


def test_an_argument_of_a_node_that_is_gone_is_nothing(captured: Captured) -> None:
    case = Case(bypass=(("layer_norm", "l_x_"),), arguments=(("layer_norm", 3, "default"),))
    assert torch.equal(run(captured.apply(case))[0], torch.relu(X))


@pytest.mark.parametrize(
    "argument",
    [
        ("layer_norm", 0, "default"),
        ("layer_norm", 1, "default"),
        ("layer_norm", 9, "default"),
        ("layer_norm", "nothing", "default"),
        ("layer_norm", 2, "one"),
        ("mul", 0, "item:4"),
    ],
)
def test_an_argument_that_cannot_be_changed_so_says_it(captured: Captured, argument: Any) -> None:
    with pytest.raises(CannotEdit):
        edited(captured, argument)
