"""The source of a captured graph does, bit for bit, what the graph does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import fx, nn

from bisector.core.decision import DecisionId
from bisector.inductor.graph.source import Names, clean_name, function_source, input_names, verify
from bisector.inductor.graph.values import CannotWrite

Graph = tuple[fx.GraphModule, list[Any]]


def capture(function: Callable[..., Any], *args: Any, dynamic: bool | None = False) -> Graph:
    """The one graph that Dynamo makes of a call, with its real inputs."""
    graphs: list[Graph] = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def keep(*inputs: Any) -> Any:
            graphs.append((gm, list(inputs)))
            return gm(*inputs)

        return keep

    torch.compiler.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    assert len(graphs) == 1
    return graphs[0]


def written(function: Callable[..., Any], *args: Any, dynamic: bool | None = False) -> str:
    """The source of the function's graph, after it has been checked against the graph."""
    torch.manual_seed(0)
    gm, inputs = capture(function, *args, dynamic=dynamic)
    source = function_source(gm)
    verify(source, gm, inputs)
    return "\n".join([*source.imports, source.text])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.interpolate(F.gelu(self.bn(self.conv(x))), scale_factor=(1.3, 2.0), mode="nearest")
        return self.layers[0](y.flatten(2).transpose(1, 2))


def write_slices(x: torch.Tensor, y: torch.Tensor) -> Any:
    x = x.clone()
    x[1:, ::2] = y
    x[..., None].mul_(2)
    x += 1
    first, second = x.split(2)
    return first @ second.t(), -x[0], x[:, -1:], x[None, 1]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    scores = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 4.0, dim=-1)
    plain = scores.masked_fill(scores < 0.1, float("-inf")).exp() @ v
    return plain, F.scaled_dot_product_attention(q, k, v, is_causal=True)


def autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ x
    with torch.no_grad():
        w = z.sum()
    return y, z * 2, w


def integers(x: torch.Tensor) -> Any:
    bits = x.view(torch.int32)
    return bits >> 3, bits & 255, ~bits, bits // 7 % 5, 2 ** (bits & 3), (bits != 0) | (bits == 5), 1 - bits


def complexes(x: torch.Tensor) -> Any:
    z = torch.complex(x, x.flip(0)) * (1 - 2j)
    return z.conj() * z, torch.view_as_real(z), z.imag, torch.fft.fft(z)


def casts(x: torch.Tensor) -> Any:
    low = x.to(torch.float16)
    return low.float(), x.to(dtype=torch.bfloat16, memory_format=torch.contiguous_format), low.type_as(x)


def factories(x: torch.Tensor) -> Any:
    steps = torch.arange(4, device=x.device, dtype=torch.float64)
    noise = torch.rand(4) + torch.rand_like(x)
    return steps, noise, torch.full((2,), float("inf")), torch.tensor([1, 2]), torch.linalg.norm(x)


def aten(x: torch.Tensor) -> Any:
    return torch.ops.aten.gelu.default(x, approximate="tanh"), torch.ops.aten.sum.dim_IntList(x, [0])


def checkpointed(x: torch.Tensor) -> Any:
    body = torch.utils.checkpoint.checkpoint(lambda v: v.sin().exp(), x, use_reentrant=False)
    return body * 2


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "a module": (
        Net(), (torch.randn(2, 3, 4, 4),),
        ["def fn(\n    conv_weight, conv_bias, x, num_batches_tracked, running_mean,",
         "torch.conv2d(x, conv_weight, conv_bias, (1, 1), (1, 1), (1, 1), 1)", "= F.gelu(batch_norm)",
         "F.interpolate(", "scale_factor=(1.3, 2.0), mode=\"nearest\")", "num_batches_tracked.add_(1)",
         "layers_0_weight, layers_0_bias"],
    ),
    "slices": (
        write_slices, (torch.randn(4, 4), torch.zeros(3, 2)),
        ["x_1[1:, ::2] = y", "x_1[..., None]", "getitem.mul_(2)\n", "x_1 += 1", "[:, -1:]", "[None, 1]"],
    ),
    "attention": (
        attention, (torch.randn(1, 2, 4, 8),) * 3,
        ["torch.softmax(truediv, dim=-1)", "masked_fill(lt, -inf)", "is_causal=True"],
    ),
    "autocast": (
        autocast, (torch.randn(4, 4, requires_grad=True),),
        ['    with torch.autocast("cpu", dtype=torch.bfloat16):\n        getattr_1 = x.T\n',
         '        with torch.autocast("cpu", enabled=False):\n            float_1 = y.float()',
         "    torch.set_grad_enabled(False)\n", "    torch.set_grad_enabled(True)\n"],
    ),
    "einsum": (
        lambda x, w: torch.einsum("b t d, h d e -> b h t e", x, w),
        (torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
        ['torch.einsum("b t d, h d e -> b h t e", x, w)'],
    ),
    "integers": (integers, (torch.randn(9),), [">> 3", "& 255", "= ~", "2 ** ", "1 - "]),
    "complex": (complexes, (torch.randn(4),), ["(1-2j)", ".conj()", "torch.fft.fft("]),
    "casts": (casts, (torch.randn(4),), ["x.to(torch.float16)", "memory_format=torch.contiguous_format"]),
    "factories": (
        factories, (torch.randn(4),),
        ['device="cpu"', "dtype=torch.float64", "torch.linalg.norm("],
    ),
    "aten ops": (aten, (torch.randn(4),), ["torch.ops.aten.gelu.default(x, approximate=\"tanh\")"]),
    "a checkpoint": (
        checkpointed, (torch.randn(4, requires_grad=True),),
        ["def wrap_body(x):", "torch.utils.checkpoint.checkpoint(wrap_body, x, use_reentrant=False)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_source_does_what_the_graph_does_and_reads_well(name: str) -> None:
    function, args, pieces = PROGRAMS[name]
    text = written(function, *args)
    assert [piece for piece in pieces if piece not in text] == [], text
    assert max(map(len, text.splitlines())) <= 110


def test_symbolic_sizes_are_inputs_of_the_function() -> None:
    text = written(lambda x: x.view(x.shape[0] * 2, -1) + x.shape[0], torch.randn(4, 6), dynamic=True)
    assert "view(mul, -1)" in text


def test_a_branch_becomes_two_functions() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))

    gm, _ = capture(branch, torch.ones(3))
    text = function_source(gm).text
    assert text.index("def cond_true(x):") < text.index("def fn(x):")
    assert "torch.cond(gt, cond_true, cond_false, (x,))" in text


def test_a_tensor_of_the_graph_itself_becomes_a_constant() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("_table", torch.tensor([1.0, 2.0]))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (x + self._table,)

    gm = fx.symbolic_trace(Holder())
    source = function_source(gm)
    assert source.constants["TABLE"].text == "torch.tensor([1.0, 2.0], dtype=torch.float32)"
    assert "x + TABLE" in source.text
    verify(source, gm, [torch.zeros(2)])


def test_adding_in_place_to_a_number_leaves_the_old_number() -> None:
    graph = fx.Graph()
    n = graph.placeholder("n")
    more = graph.call_function(operator.iadd, (n, 1))
    graph.output((n, more))
    gm = fx.GraphModule(nn.Module(), graph)
    source = function_source(gm)
    assert "operator.iadd(n, 1)" in source.text
    verify(source, gm, [3])


def test_a_negative_number_keeps_its_power() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.pow, (-2.0, x)),))
    gm = fx.GraphModule(nn.Module(), graph)
    assert "(-2.0) ** x" in function_source(gm).text
    verify(function_source(gm), gm, [torch.tensor([2.0])])


def test_a_source_that_does_something_else_is_refused() -> None:
    gm, inputs = capture(lambda x: x + 1, torch.zeros(2))
    other, _ = capture(lambda x: x + 2, torch.zeros(2))
    with pytest.raises(CannotWrite, match="other outputs"):
        verify(function_source(other), gm, inputs)
    mutating, _ = capture(lambda x: x.add_(0.5) + 0.5, torch.zeros(2))
    with pytest.raises(CannotWrite, match="other values in its inputs"):
        verify(function_source(mutating), gm, inputs)


def test_what_has_no_public_form_is_refused_with_its_name() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    gm, _ = capture(Twice.apply, torch.ones(2, requires_grad=True))
    with pytest.raises(CannotWrite, match="autograd_function_apply"):
        function_source(gm)


def helper(x: torch.Tensor) -> torch.Tensor:
    return x


def test_a_function_of_the_user_is_refused_with_its_name() -> None:
    graph = fx.Graph()
    graph.output((graph.call_function(helper, (graph.placeholder("x"),)),))
    with pytest.raises(CannotWrite, match="helper is not a function of torch"):
        function_source(fx.GraphModule(nn.Module(), graph))


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("l_x_", "x"),
        ("l_self_modules_conv_parameters_weight_", "weight"),
        ("l_self_parameters_w_", "w"),
        ("l_self_modules_bn_buffers_running_mean_", "running_mean"),
        ("l_self_modules_weights_parameters_0_", "weights_0"),
        ("l_self_modules_attn_scale", "attn_scale"),
        ("l_self_scale", "scale"),
        ("l_args_0_", "args_0"),
        ("g_Scale_", "scale"),
        ("l_x__1", "x"),
        ("s77", "s77"),
        ("linear_26", "linear"),
        ("g_1", "g"),
    ],
)
def test_an_input_gets_the_name_its_author_knows(node: str, name: str) -> None:
    assert input_names([node]) == [name]


def test_a_layer_stands_in_front_only_where_two_inputs_would_share_a_name() -> None:
    self = "l_self_modules_"
    inputs = ["l_bias_", f"{self}norm_parameters_weight_", f"{self}norm_parameters_bias_"]
    assert input_names(inputs) == ["bias", "weight", "norm_bias"]
    blocks = ((0, "q"), (1, "q"), (1, "k"))
    weights = [f"{self}blocks_modules_{i}_modules_{m}_parameters_weight_" for i, m in blocks]
    assert input_names(weights) == ["blocks_0_q_weight", "blocks_1_q_weight", "k_weight"]


@pytest.mark.parametrize(
    ("node", "name"),
    [("linear_26", "linear"), ("add__1", "add"), ("x_1_2", "x"), ("conv2d", "conv2d"), ("t4", "t4")],
)
def test_a_nodes_name_loses_its_number(node: str, name: str) -> None:
    assert clean_name(node) == name


@pytest.mark.parametrize(
    ("node", "overload", "name"),
    [
        ("mul_tensor_4", "mul.Tensor", "mul"),
        ("sum_dim_int_list", "sum.dim_IntList", "sum"),
        ("_softmax_default_1", "_softmax.default", "softmax"),
        ("scores_2", "mul.Tensor", "scores"),
    ],
)
def test_a_name_that_is_an_overloads_becomes_the_ops(node: str, overload: str, name: str) -> None:
    assert clean_name(node, overload) == name


def test_names_are_unique_and_hide_nothing() -> None:
    names = Names(kept={"x_1"})
    assert [names.take(n) for n in ("x", "x", "sum", "lambda", "torch", "0")] == [
        "x", "x_2", "sum_1", "lambda_1", "torch_1", "v0"
    ]  # fmt: skip
    assert names.take("x", own="x_1") == "x_1"


def late(*names: str) -> fx.GraphModule:
    """A chain of ceilings over an input, under these names."""
    graph = fx.Graph()
    x = graph.placeholder("matmul_4")
    for name in names:
        x = graph.create_node("call_function", torch.ceil, (x,), name=name)
    graph.output((x,))
    return fx.GraphModule(nn.Module(), graph)


def test_a_node_of_a_large_graph_loses_its_number_and_likes_are_numbered_as_they_come() -> None:
    text = function_source(late("ceil_17", "ceil_26", "fn", "sum_3")).text
    assert text.splitlines() == [
        "def fn(matmul):",
        "    ceil = torch.ceil(matmul)",
        "    ceil_1 = torch.ceil(ceil)",
        "    fn_1 = torch.ceil(ceil_1)",
        "    sum_1 = torch.ceil(fn_1)",
        "    return (sum_1,)",
    ]


def test_what_a_decision_names_is_found_by_a_comment_and_nothing_else_is_called_so() -> None:
    decisions = ["fuse:ceil_3/x@ceil_1", "vec:erf@bwd.matmul_4", "pass:noop@joint", "vec:floor_1@floor_2"]
    gm = late("ceil_1", "ceil_2", "ceil_3", "floor_2")
    source = function_source(gm, decisions=map(DecisionId, decisions))
    assert source.text.splitlines() == [
        "def fn(matmul):",
        "    # matmul: matmul_4",
        "    ceil = torch.ceil(matmul)  # ceil_1",
        "    ceil_2 = torch.ceil(ceil)",
        "    ceil_3 = torch.ceil(ceil_2)",
        "    floor = torch.ceil(ceil_3)  # floor_2",
        "    return (floor,)",
    ]
    verify(source, gm, [torch.ones(2)])


def test_a_long_statement_with_a_comment_is_broken() -> None:
    graph = fx.Graph()
    names = [f"an_input_of_long_name_{'abcde'[i] * 8}" for i in range(3)]
    inputs = [graph.placeholder(name) for name in names]
    graph.output((graph.create_node("call_function", torch.addcmul, tuple(inputs), name="total_12"),))
    text = function_source(fx.GraphModule(nn.Module(), graph), decisions=[DecisionId("fma:x@total_12")]).text
    assert "    total = torch.addcmul(  # total_12\n" in text
    assert max(map(len, text.splitlines())) <= 110
