"""The compiled run followed node by node, on the real compiler and with errors planted in single nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from bisector.core.case import WHOLE
from bisector.core.classify import classify
from bisector.core.criterion import Criterion
from bisector.core.judge import judge
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.protocol import CannotAnswer
from bisector.core.shares import Carried, Part, Shares
from bisector.core.trace import NodeTrace, Reach, Trace, amplified, amplifier, origin
from bisector.core.verdict import Verdict, VerdictClass
from bisector.inductor import evidence, execute
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.following import taps
from bisector.inductor.following.follow import trace
from bisector.report.reasons import words

pytestmark = pytest.mark.usefixtures("undisturbed")

EXACT = Criterion((0.0, 0.0))
PATHS = ["output[0]"]


def call_of(folder: Path, body: str, inputs: str, **load_options: Any) -> Call:
    """A call of `fn(x)` with that body; its line 3 is the body's first."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    (folder / "script.py").write_text(f"import torch\ndef fn(x):\n{lines}\n{inputs}\ntorch.compile(fn)(x)\n")
    loaded = load(LoadOptions(str(folder / "script.py"), **load_options))
    assert loaded.problem is None
    return loaded.recorder.calls[0]


def followed(call: Call, *left_out: str, diverges: bool = True) -> Trace:
    answer = trace(call, WHOLE, Candidate(), None, left_out)
    assert (judge(answer.measurement, EXACT).outcome is Outcome.FAIL) is diverges
    return answer.trace


def found(told: Trace) -> tuple[NodeTrace | None, NodeTrace | None]:
    nodes = told.behind(PATHS)
    return origin(nodes), amplifier(nodes)


# -- on the real compiler -------------------------------------------------------------------------------


@pytest.mark.live
def test_a_step_behind_an_approximated_function_amplifies_its_rounding(tmp_path: Path) -> None:
    body = "e = torch.erf(x * 0.5)\nreturn torch.ceil(e * 4096)"
    told = followed(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.randn(1 << 16)"))
    begins, grows = found(told)
    assert begins is not None and grows is not None
    assert (begins.op, grows.op) == ("aten.erf", "aten.ceil")
    assert 0 < begins.local_ulp < 64 and not begins.beyond
    assert begins.where.endswith("script.py:3") and grows.where.endswith("script.py:4")
    assert grows.gain is not None and grows.gain > 1e3
    assert amplified(told, PATHS) is True


@pytest.mark.live
def test_a_floor_behind_a_softmax_amplifies_its_rounding(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1))"
    told = followed(call_of(tmp_path, body, "torch.manual_seed(42)\nx = torch.randn(430, 59)"))
    begins, grows = found(told)
    assert begins is not None and begins.op == "aten._softmax"
    assert grows is not None and grows.op == "aten.floor"
    assert amplified(told, PATHS) is True


@pytest.mark.live
def test_a_chaotic_recurrence_amplifies_from_node_to_node(tmp_path: Path) -> None:
    body = "h, w = x[:4], x\nfor _ in range(25):\n    h = torch.tanh(h @ w)\nreturn h"
    told = followed(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.randn(32, 32) * 1.2"))
    begins, grows = found(told)
    assert begins is not None and not begins.beyond
    assert grows is not None and grows.op in ("aten.tanh", "aten.mm")
    assert amplified(told, PATHS) is True


def test_a_cast_that_the_compiler_leaves_out_is_more_than_rounding(tmp_path: Path) -> None:
    told = followed(call_of(tmp_path, "return x.half().float() * 3", "x = torch.linspace(1, 2, 99)"))
    begins, _ = found(told)
    assert begins is not None and begins.name == "float_1" and begins.beyond
    assert begins.local_ulp > 1000
    assert amplified(told, PATHS) is False


CONTRACT = (
    "import torch._inductor.config as config\n"
    "config.cpp.enable_floating_point_contract_flag = 'fast'\n"
)


@pytest.mark.live
def test_a_contracted_product_shows_at_the_sum_once_its_value_is_not_returned(tmp_path: Path) -> None:
    body = "top = (x * 3.3).amax(-1, keepdim=True)\nreturn torch.exp(x * 3.3 - top).sum(-1)"
    call = call_of(tmp_path, body, f"{CONTRACT}torch.manual_seed(0)\nx = torch.randn(64, 64) * 1e7")
    answer = trace(call, WHOLE, Candidate(), None, ())
    assert not any(node.beyond for node in answer.trace.nodes)
    told = followed(call, "mul_1")
    begins, grows = found(told)
    assert begins is not None and begins.op == "aten.sub" and begins.beyond
    assert grows is not None and grows.op == "aten.exp"
    assert amplified(told, PATHS) is None


@pytest.mark.live
def test_a_graph_with_dynamic_shapes_is_followed(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1))"
    inputs = "torch.manual_seed(42)\nx = torch.randn(430, 59)"
    _, grows = found(followed(call_of(tmp_path, body, inputs, dynamic=True)))
    assert grows is not None and grows.op == "aten.floor"


def test_the_forward_of_a_training_graph_is_followed(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1)) + x.sum()"
    inputs = "torch.manual_seed(42)\nx = torch.randn(430, 59, requires_grad=True)"
    _, grows = found(followed(call_of(tmp_path, body, inputs)))
    assert grows is not None and grows.op == "aten.floor"


# -- planted in one node --------------------------------------------------------------------------------


class Planted(torch.fx.Interpreter):
    """The compiled program: eager, with one node's result changed, or what it writes multiplied."""

    def __init__(
        self, gm: torch.fx.GraphModule, where: str, change: Callable[[Any], Any], writes: float = 1.0
    ) -> None:
        super().__init__(gm)
        self.where, self.change, self.writes = where, change, writes

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.name == self.where and self.writes != 1.0:
            with torch.no_grad():
                self.env[n.args[0]].mul_(self.writes)
        return self.change(result) if n.name == self.where else result


def plant(
    monkeypatch: pytest.MonkeyPatch, where: str, change: Callable[[Any], Any], writes: float = 1.0
) -> None:
    def compile_subject(subject: execute.Subject, candidate: Candidate) -> Callable[..., Any]:
        return Planted(subject.edited.gm, where, change, writes).run

    monkeypatch.setattr(execute, "compile_subject", compile_subject)


CHAIN = "a = x + 1\nb = torch.exp(a)\nc = b * 2\nd = c - 3\nreturn d.sum(0)"


@pytest.mark.parametrize("where", ["a", "b", "c", "d"])
def test_an_error_that_is_planted_in_a_node_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    call = call_of(tmp_path, CHAIN, "x = torch.rand(16, 4)")
    plant(monkeypatch, where, lambda value: value * 1.001)
    told = followed(call)
    begins, _ = found(told)
    assert begins is not None and begins.name == where and begins.beyond
    assert begins.local == pytest.approx(1e-3, rel=1e-2)
    assert begins.where.endswith(f"script.py:{3 + 'abcd'.index(where)}")
    assert [n.name for n in told.nodes if n.arises] == [where]


def test_the_gain_of_a_product_by_itself_is_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of(tmp_path, "a = x + 1\nreturn a * a * 5", "x = torch.full((8,), 2.0)")
    plant(monkeypatch, "a", lambda value: value * 1.001)
    gains = {n.name: n.gain for n in followed(call).nodes}
    assert gains["a"] is None
    assert gains["mul"] == pytest.approx(2.0, rel=1e-2)
    assert gains["mul_1"] == pytest.approx(1.0, rel=1e-2)


def test_a_cancellation_is_the_amplifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of(tmp_path, "a = x + 1\nreturn a - 1000", "x = torch.linspace(999, 1000, 8)")
    plant(monkeypatch, "a", lambda value: torch.nextafter(value, value + 1))
    told = followed(call)
    begins, grows = found(told)
    assert begins is not None and begins.name == "a" and begins.local_ulp == 1 and not begins.beyond
    assert grows is not None and grows.op == "aten.sub" and grows.gain == pytest.approx(512, rel=0.2)
    assert amplified(told, PATHS) is True


def test_a_zero_of_the_other_sign_is_more_than_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, "a = x + 0.0\nreturn 1 / a", "x = torch.zeros(4)")
    plant(monkeypatch, "a", lambda value: -value)
    begins, grows = found(followed(call))
    assert begins is not None and begins.name == "a" and begins.beyond and begins.local_ulp == 0
    assert grows is not None and grows.gain == float("inf")


def test_an_error_in_a_part_of_a_tuple_bears_the_name_of_the_operation_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, "v, i = x.max(1)\nreturn v * 2", "x = torch.rand(4, 4)")
    plant(monkeypatch, "v", lambda value: value * 1.001)
    begins, _ = found(followed(call))
    assert begins is not None and (begins.name, begins.op) == ("v", "aten.max")


@pytest.mark.live
@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("a = x * 3\nb = a.sub_(1).relu_()\nreturn b * 5", "b"),
        ("a = x * 3\na.sub_(1).relu_()\nreturn a * 5", "sub_"),  # `a` is read after it was written into
        ("a = x * 1\na[0] = x[1] * 5\nreturn a * 2", "setitem"),
        ("a = x * 1\nb = a[:4]\nb.add_(1)\nreturn a * 5", "add_"),  # under another name
        ("x.add_(1)\nreturn x * 2", "add_"),
    ],
)
def test_an_error_in_what_is_written_into_a_value_is_found_there_and_goes_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, where: str
) -> None:
    call = call_of(tmp_path, body, "x = torch.rand(9) + 1")
    told = followed(call, diverges=False)  # the compiled program agrees by itself, and each node of it does
    assert not any(node.arises for node in told.nodes)
    plant(monkeypatch, where, lambda value: value, writes=1.001)
    told = followed(call)
    begins, _ = found(told)
    assert begins is not None and begins.name == where and begins.beyond
    assert [n.name for n in told.nodes if n.arises] == [where]


def test_an_input_that_is_written_into_is_followed_to_the_call_that_wrote_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, "x.add_(1)\nx.mul_(3)\nreturn x.sum()", "x = torch.rand(9)")
    plant(monkeypatch, "add_", lambda value: value, writes=1.001)
    told = followed(call)
    assert told.ends["mutated[l_x_]"] == "mul_"
    assert [n.name for n in told.behind(["mutated[l_x_]"])] == ["add_", "mul_"]


@pytest.mark.live
def test_running_statistics_are_values_that_a_normalization_writes(tmp_path: Path) -> None:
    body = "return torch.nn.functional.batch_norm(x, mean, var, training=True)"
    call = call_of(tmp_path, body, "mean, var, x = torch.zeros(4), torch.ones(4), torch.rand(64, 4)")
    told = trace(call, WHOLE, Candidate(), None, ()).trace
    written = {path: name for path, name in told.ends.items() if path.startswith("mutated[")}
    assert len(written) == 2 and set(written.values()) == {told.ends["output[0]"]}


DRAWS = (
    "a = x * 3\ny = torch.nn.functional.dropout(a, 0.5)\nb = y * a\n"
    "z = torch.rand_like(b)\nc = z * b\nreturn c.sum(0)"
)
AS_EAGER = "torch._inductor.config.fallback_random = True\n"


def test_what_draws_other_random_numbers_than_eager_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="it draws random numbers"):
        trace(call_of(tmp_path, DRAWS, "x = torch.rand(16, 4)"), WHOLE, Candidate(), None, ())


@pytest.mark.parametrize("where", ["a", "b", "c"])
def test_between_draws_that_are_eagers_a_planted_error_is_found_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    call = call_of(tmp_path, DRAWS, f"{AS_EAGER}x = torch.rand(16, 4)")
    plant(monkeypatch, where, lambda value: value * 1.001)
    told = followed(call)
    assert [n.name for n in told.nodes if n.arises] == [where]
    assert all(n.wrong for n in told.nodes if n.name == where)


def test_a_call_that_draws_other_numbers_is_not_blamed_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, DRAWS, f"{AS_EAGER}x = torch.rand(16, 4)")
    plant(monkeypatch, "z", lambda value: torch.rand_like(value))
    with pytest.raises(CannotAnswer, match="`z` draws random numbers, and gives others compiled"):
        trace(call, WHOLE, Candidate(), None, ())


def test_a_draw_is_seen_where_what_is_around_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, DRAWS, f"{AS_EAGER}x = torch.rand(16, 4)")
    plant(monkeypatch, "y", lambda value: value * 1.001)
    with pytest.raises(CannotAnswer, match="`y` draws random numbers, and gives others compiled"):
        trace(call, WHOLE, Candidate(), None, ("a", "y", "b"))


@pytest.mark.live
@pytest.mark.parametrize("drawn", ["torch.nn.functional.dropout2d", "torch.nn.functional.alpha_dropout"])
def test_a_step_on_what_was_drawn_and_not_rounded_is_not_wrong(tmp_path: Path, drawn: str) -> None:
    """What compiled does not round has no run in float64."""
    inputs = f"{AS_EAGER}torch.manual_seed(0)\nx = torch.randn(64, 64, 8, 8).bfloat16() * 4"
    told = followed(call_of(tmp_path, f"return {drawn}(x, 0.3, True).floor()", inputs))
    assert any(n.beyond for n in told.nodes) and not any(n.wrong for n in told.nodes)


@pytest.mark.live
def test_a_checkpoint_that_cancels_rounds_as_what_is_in_it_does(tmp_path: Path) -> None:
    body = (
        "def within(y):\n    return (torch.softmax(y, -1).sum(-1) - 1) * 1e6\n"
        "return torch.utils.checkpoint.checkpoint(within, x, use_reentrant=False) / 7"
    )
    inputs = "torch.manual_seed(0)\nx = torch.randn(64, 64, requires_grad=True)"
    told = followed(call_of(tmp_path, body, inputs))
    assert any(n.arises for n in told.nodes) and not any(n.beyond for n in told.nodes)


@pytest.mark.live
def test_a_dropout_that_draws_as_eager_does_is_followed(tmp_path: Path) -> None:
    body = "y = torch.nn.functional.dropout(x, 0.3)\ne = torch.erf(y * 0.5)\nreturn torch.ceil(e * 4096)"
    told = followed(call_of(tmp_path, body, f"{AS_EAGER}x = torch.randn(1 << 16)"))
    begins, grows = found(told)
    assert begins is not None and grows is not None and grows.op == "aten.ceil"
    assert amplified(told, PATHS) is True and not any(n.beyond for n in told.nodes)


# -- gradients ------------------------------------------------------------------------------------------


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.factor, None


def scaled(value: torch.Tensor) -> torch.Tensor:
    """The value as it is; its gradient is wrong."""
    return cast(torch.Tensor, _ScaledGradient.apply(value, 1.001))


TRAINED = "a = x * 3\nb = a * a\nc = b * x\nd = c.t()\nreturn d.sum(0)"
LEAF = "x = (torch.rand(16, 4) + 0.5).requires_grad_()"


def backward_of(call: Call, path: str = "grad[l_x_]") -> tuple[Trace, NodeTrace | None]:
    told = trace(call, WHOLE, Candidate(), True, (), Reach.BACKWARD).trace
    return told, origin(told.behind([path]))


@pytest.mark.parametrize("where", ["a", "b", "c", "d"])
def test_a_wrong_gradient_is_found_at_the_operation_whose_backward_pass_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    call = call_of(tmp_path, TRAINED, LEAF)
    assert backward_of(call)[1] is None  # the compiled gradients agree to the bit
    plant(monkeypatch, where, scaled)
    told, begins = backward_of(call)
    assert begins is not None and begins.name == f"bwd.{where}" and begins.beyond and begins.wrong
    assert begins.local == pytest.approx(1e-3, rel=0.1)
    assert [n.name for n in told.nodes if n.arises] == [begins.name]


@pytest.mark.parametrize("where", ["a", "y", "b", "c"])
def test_around_a_draw_that_is_eagers_a_wrong_gradient_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    call = call_of(tmp_path, DRAWS, f"{AS_EAGER}{LEAF}")
    assert backward_of(call)[1] is None
    plant(monkeypatch, where, scaled)
    told, begins = backward_of(call)
    assert begins is not None and begins.beyond
    assert begins.wrong is (where != "y")  # what draws has no float64 run
    assert [n.name for n in told.nodes if n.arises] == [f"bwd.{where}"]


def test_a_gradient_of_a_value_that_two_operations_read_is_told_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "a = x * 3\nb = a * a\nc = a.abs()\nreturn (b + c).sum(0)"
    call = call_of(tmp_path, body, LEAF)
    plant(monkeypatch, "c", scaled)
    told, begins = backward_of(call)
    assert begins is not None and begins.name == "bwd.c" and begins.wrong
    summed = next(n for n in told.nodes if n.name == "grad[a]")
    assert set(summed.reads) == {"bwd.b", "bwd.c"} and not summed.arises
    assert summed.difference > 0


@pytest.mark.live
def test_the_gradient_of_a_normalization_in_training_is_followed(tmp_path: Path) -> None:
    body = (
        "y = torch.nn.functional.batch_norm(x, mean, var, weight, training=True)\n"
        "return (torch.relu(y) * 1.5).sum(0)"
    )
    inputs = (
        "torch.manual_seed(0)\nmean, var = torch.zeros(4), torch.ones(4)\n"
        "weight = torch.rand(4).requires_grad_()\n"
        "x = torch.randn(64, 4).requires_grad_()"
    )
    told, _ = backward_of(call_of(tmp_path, body, inputs))
    ops = {n.op for n in told.nodes}
    assert {"aten.native_batch_norm", "aten.native_batch_norm_backward", "aten.threshold_backward"} <= ops
    assert not any(n.wrong for n in told.nodes)


@pytest.mark.live
def test_a_gradient_in_bfloat16_that_is_not_rounded_is_not_wrong(tmp_path: Path) -> None:
    body = "h = torch.tanh(x * 1.7) * x\nreturn torch.nn.functional.gelu(h * 3 - x, approximate='tanh')"
    inputs = "torch.manual_seed(0)\nx = torch.randn(64, 256, dtype=torch.bfloat16).requires_grad_()"
    told, begins = backward_of(call_of(tmp_path, body, inputs))
    assert begins is not None
    assert not any(n.wrong for n in told.nodes)


def test_a_gradient_whose_cast_compiled_leaves_out_is_not_wrong(tmp_path: Path) -> None:
    body = "return (x.half().float() @ torch.ones(4)).tanh().sum()"
    inputs = "x = torch.linspace(0.1, 1, 12).reshape(3, 4).requires_grad_()"
    told, begins = backward_of(call_of(tmp_path, body, inputs))
    assert begins is not None and begins.beyond
    assert not any(n.wrong for n in told.nodes)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a = x * 3\na[0] = 1.0\nreturn a * 2", "is read after"),
        ("with torch.autocast('cpu'):\n    a = x @ x.t()\nreturn a.float().sum(0)", "autocast"),
    ],
)
def test_gradients_that_cannot_be_followed_say_why(tmp_path: Path, body: str, reason: str) -> None:
    call = call_of(tmp_path, body, LEAF)
    with pytest.raises(CannotAnswer, match=reason):
        trace(call, WHOLE, Candidate(), True, (), Reach.BACKWARD)
    assert trace(call, WHOLE, Candidate(), None, ()).trace.nodes


# -- what the errors carry ---------------------------------------------------------------------------------

LAYERS = """\
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return torch.tanh(self.linear(x)) + x
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum(-1)
torch.manual_seed(0)
model, x = Model(), torch.randn(16, 8).requires_grad_()
torch.compile(model)(x).sum().backward()
"""


def shared(folder: Path) -> Trace:
    (folder / "script.py").write_text(LAYERS)
    call = load(LoadOptions(str(folder / "script.py"))).recorder.calls[0]
    return trace(call, WHOLE, Candidate(), None, (), Reach.BACKWARD, Shares.ALL).trace


def at(part: Part, path: str = "output[0]") -> Carried:
    return next(carried for carried in part.carried if carried.path == path)


def test_an_error_of_one_layer_carries_all_of_the_difference_and_the_others_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "tanh_1", lambda value: value + value.detach() * 0.01)
    told = shared(tmp_path)
    parts = told.parts
    assert [part.name for part in parts.layers] == ["layers.1"]
    assert [part.name for part in parts.operations] == ["aten.tanh"]
    assert parts.everything is not None and parts.faithful(["output[0]", "grad[l_x_]"])
    for part in (parts.everything, parts.layers[0], parts.operations[0], parts.most[0]):
        assert at(part).alone == pytest.approx(1.0, rel=1e-3)
        assert at(part, "grad[l_x_]").alone == pytest.approx(1.0, rel=1e-2)
    assert at(parts.layers[0]).without == 0.0
    assert parts.most[0].nodes == ("tanh_1",)


def test_errors_of_two_layers_that_are_independent_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_subject(subject: execute.Subject, candidate: Candidate) -> Callable[..., Any]:
        noise = torch.Generator().manual_seed(3)

        class Two(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                if n.name in ("tanh", "tanh_2"):
                    result = result + 1e-3 * torch.randn(result.shape, generator=noise)
                return result

        return Two(subject.edited.gm).run

    monkeypatch.setattr(execute, "compile_subject", compile_subject)
    first, last = shared(tmp_path).parts.layers
    assert (first.name, last.name) == ("layers.0", "layers.2")
    assert 0.1 < at(first).alone < 0.9 and 0.1 < at(last).alone < 0.9
    assert at(first).without == pytest.approx(at(last).alone, rel=0.05)
    assert at(first).alone + at(last).alone == pytest.approx(1.0, abs=0.35)


def test_a_wrong_gradient_carries_the_gradient_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "tanh_2", scaled)
    (layer,) = shared(tmp_path).parts.layers
    assert layer.name == "layers.2"
    assert all(carried.path.startswith("grad[") for carried in layer.carried)
    assert at(layer, "grad[l_x_]").alone == pytest.approx(1.0, rel=1e-2)


def test_values_that_do_not_fit_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taps, "MOST_BYTES", 100)
    call = call_of(tmp_path, CHAIN, "x = torch.rand(16, 4)")
    with pytest.raises(CannotAnswer, match="MiB"):
        trace(call, WHOLE, Candidate(), None, ())


# -- the class beside it --------------------------------------------------------------------------------


def classified(call: Call, told: Trace) -> Verdict:
    return classify(evidence.collect(call, WHOLE, None), Criterion(), False, told)


@pytest.mark.live
def test_a_layer_norm_in_bfloat16_that_compiled_computes_in_float32_is_better(tmp_path: Path) -> None:
    body = (
        "centred = x - x.mean(-1, keepdim=True)\n"
        "return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * 0.7 + 0.1"
    )
    inputs = "torch.manual_seed(0)\nx = torch.randn(64, 256, dtype=torch.bfloat16) * 3 + 1"
    call = call_of(tmp_path, body, inputs)
    verdict = classified(call, followed(call))
    assert verdict.kind is VerdictClass.COMPILED_BETTER, words(verdict.reason)
