"""The compiled run followed node by node, on the real compiler and with errors planted in single nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bisector.core.case import WHOLE
from bisector.core.judge import Criterion, judge
from bisector.core.model import Candidate, Outcome
from bisector.core.protocol import CannotAnswer
from bisector.core.trace import NodeTrace, Trace, amplified, amplifier, origin
from bisector.core.verdict import Verdict, VerdictClass, classify
from bisector.inductor import collecting, execute
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.following import taps
from bisector.inductor.following.follow import trace

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


def test_a_floor_behind_a_softmax_amplifies_its_rounding(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1))"
    told = followed(call_of(tmp_path, body, "torch.manual_seed(42)\nx = torch.randn(430, 59)"))
    begins, grows = found(told)
    assert begins is not None and begins.op == "aten._softmax"
    assert grows is not None and grows.op == "aten.floor"
    assert amplified(told, PATHS) is True


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


def test_a_graph_with_dynamic_shapes_is_followed(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1))"
    inputs = "torch.manual_seed(42)\nx = torch.randn(430, 59)"
    _, grows = found(followed(call_of(tmp_path, body, inputs, dynamic=True)))
    assert grows is not None and grows.op == "aten.floor"


def test_the_forward_of_a_training_graph_is_followed(tmp_path: Path) -> None:
    body = "return torch.floor(torch.softmax(x, dim=1).sum(1)) + x.sum()"
    inputs = "torch.manual_seed(42)\nx = torch.randn(430, 59, requires_grad=True)"
    _, grows = found(followed(call_of(tmp_path, body, inputs, train=True)))
    assert grows is not None and grows.op == "aten.floor"


# -- planted in one node --------------------------------------------------------------------------------


class Planted(torch.fx.Interpreter):
    """The compiled program's stand-in: eager, with one node's result changed."""

    def __init__(self, gm: torch.fx.GraphModule, where: str, change: Callable[[Any], Any]) -> None:
        super().__init__(gm)
        self.where, self.change = where, change

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        return self.change(result) if n.name == self.where else result


def plant(monkeypatch: pytest.MonkeyPatch, where: str, change: Callable[[Any], Any]) -> None:
    monkeypatch.setattr(
        execute, "compile_subject", lambda subject, candidate: Planted(subject.edited.gm, where, change).run
    )


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


def test_an_activation_that_works_in_place_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(tmp_path, "a = x * 3\na.sub_(1).relu_()\nb = a.exp()\nreturn b", "x = torch.rand(9)")
    with pytest.raises(CannotAnswer, match="read under another name"):  # `a` is, after it was written into
        trace(call, WHOLE, Candidate(), None, ())
    call = call_of(tmp_path, "a = x * 3\nb = a.sub_(1).relu_()\nreturn b.exp()", "x = torch.rand(9)")
    plant(monkeypatch, "b", lambda value: value.mul_(1.001))
    begins, _ = found(followed(call))
    assert begins is not None and begins.name == "b"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = torch.nn.functional.dropout(x, 0.5)\nreturn y + 1", "random"),
        ("x.add_(1)\nreturn x * 2", "writes into"),
        ("a = x * 1\na[0] = 5\nreturn a * 2", "writes into"),
    ],
)
def test_what_cannot_be_followed_says_why(tmp_path: Path, body: str, reason: str) -> None:
    call = call_of(tmp_path, body, "x = torch.rand(8)")
    with pytest.raises(CannotAnswer, match=reason):
        trace(call, WHOLE, Candidate(), None, ())


def test_values_that_do_not_fit_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taps, "MOST_BYTES", 100)
    call = call_of(tmp_path, CHAIN, "x = torch.rand(16, 4)")
    with pytest.raises(CannotAnswer, match="MiB"):
        trace(call, WHOLE, Candidate(), None, ())


# -- the class beside it --------------------------------------------------------------------------------


def classified(call: Call, told: Trace) -> Verdict:
    return classify(collecting.collect(call, WHOLE, None), Criterion(), False, told)


def test_a_layer_norm_in_bfloat16_that_compiled_computes_in_float32_is_better(tmp_path: Path) -> None:
    body = (
        "centred = x - x.mean(-1, keepdim=True)\n"
        "return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * 0.7 + 0.1"
    )
    inputs = "torch.manual_seed(0)\nx = torch.randn(64, 256, dtype=torch.bfloat16) * 3 + 1"
    call = call_of(tmp_path, body, inputs)
    verdict = classified(call, followed(call))
    assert verdict.kind is VerdictClass.COMPILED_BETTER, verdict.reason
