"""decomp, pass, match, lower and layout: decisions about the graph, each with a program that it breaks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.fx_passes import post_grad

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny, flat

pytestmark = pytest.mark.usefixtures("compiler")


def spread(x: torch.Tensor) -> torch.Tensor:
    return torch.std(x, dim=1)


def test_without_the_decomposition_of_std_tiny_values_do_not_underflow() -> None:
    args = [torch.randn(8, 64, generator=torch.Generator().manual_seed(0)) * 1e-30]
    eager = [spread(*args)]
    default = compile_and_run(spread, args, Control())
    assert "decomp:aten.std@std" in default.ids
    assert not default.agrees_with(eager)
    assert compile_and_run(spread, args, deny("decomp:aten.std@std")).agrees_with(eager)
    assert compile_and_run(spread, args, allow()).agrees_with(eager)


def enlarge(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest")


def test_an_op_that_python_takes_apart_is_a_decomposition_too() -> None:
    args = [torch.arange(12.0).reshape(1, 1, 3, 4)]
    eager, member = [enlarge(*args)], "decomp:aten.upsample_nearest2d@interpolate"
    default = compile_and_run(enlarge, args, Control())
    assert member in default.ids
    assert not default.agrees_with(eager)
    assert compile_and_run(enlarge, args, deny(member)).agrees_with(eager)


def test_a_composite_that_stays_whole_keeps_its_gradient() -> None:
    def gradient(compiled: bool) -> torch.Tensor | None:
        x = torch.arange(12.0).reshape(1, 1, 3, 4).requires_grad_()
        member = "decomp:aten.upsample_bilinear2d@interpolate"

        def smooth(x: torch.Tensor) -> torch.Tensor:
            y = F.interpolate(x, scale_factor=2.0, mode="bilinear")
            return (y * y).sum()

        result = compile_and_run(smooth, [x], deny(member)).outputs[0] if compiled else smooth(x)
        result.backward()
        return x.grad

    compiled, eager = gradient(True), gradient(False)
    assert compiled is not None and eager is not None
    torch.testing.assert_close(compiled, eager)


def minus_zero(x: torch.Tensor) -> torch.Tensor:
    v = torch.ceil(x)
    return torch.reciprocal(v + torch.zeros_like(v))


def test_zeros_that_make_an_addition_needless_are_a_folded_value() -> None:
    args = [torch.tensor([-0.5, -0.1, -0.9, 0.5])]
    eager, member = [minus_zero(*args)], "cfold:aten.full@zeros_like"
    default = compile_and_run(minus_zero, args, Control())
    assert member in default.ids
    assert not default.agrees_with(eager)
    assert compile_and_run(minus_zero, args, deny(member)).agrees_with(eager)


def test_a_pass_that_changes_nothing_is_no_decision() -> None:
    ids = compile_only(torch.sin, [torch.ones(8)], Control()).ids
    assert not [i for i in ids if i.startswith("pass:")]


def shift(x: torch.Tensor) -> torch.Tensor:
    x[1:] = x[:-1].clone()
    return x


def test_the_pass_that_reuses_an_input_in_place_is_decisive_for_an_overlapping_copy() -> None:
    x, member = torch.rand(8, 16), "pass:reinplace_inplaceable_ops@post_grad"
    eager = [shift(x.clone())]
    assert not compile_and_run(shift, [x.clone()], Control()).agrees_with(eager)
    assert compile_and_run(shift, [x.clone()], deny(member)).agrees_with(eager)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 4.0, dim=-1), v)


def test_all_spellings_of_one_rewrite_are_one_match() -> None:
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(2, 4, 32, 16, generator=generator).bfloat16() for _ in range(3)]
    default = compile_only(attention, args, Control())
    matches = [i for i in default.ids if i.startswith("match:_sfdp")]
    assert len(matches) == 1
    assert "scaled_dot_product" in default.source
    denied = compile_only(attention, args, deny(*matches))
    assert "scaled_dot_product" not in denied.source
    assert [i for i in denied.ids if "_sfdp" in i] == matches


def tempered(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor, temperature: torch.Tensor
) -> torch.Tensor:
    logits = torch.matmul(q, k.transpose(-2, -1)) / temperature
    return torch.matmul(torch.softmax(logits + bias, dim=-1), v)


def test_a_match_whose_replacement_raises_is_a_decision_and_denied_it_does_not_raise() -> None:
    """The attention pattern takes a divisor for a number that is a tensor (pytorch#191203)."""
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(3)]
    args += [torch.zeros(6, 6), torch.tensor(2.0)]
    control = Control()
    with pytest.raises(BackendCompilerFailed):
        compile_only(tempered, args, control)
    [raising] = [d.id for d in control.decisions() if d.id.startswith("match:_sfdp")]
    denied = compile_and_run(tempered, args, deny(raising))
    assert raising in denied.ids
    torch.testing.assert_close(denied.outputs, [tempered(*args)])


def test_a_pass_that_raises_is_a_decision_and_denied_it_does_not_raise(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(graph: torch.fx.Graph) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(post_grad, "remove_noop_ops", raising)
    args, control = [torch.ones(8)], Control()
    with pytest.raises(BackendCompilerFailed, match="planted"):
        compile_only(torch.sin, args, control)
    members = ["pass:remove_noop_ops@joint", "pass:remove_noop_ops@post_grad"]
    assert [d.id for d in control.decisions() if d.id.startswith("pass:")] == members[:1]
    denied = compile_only(torch.sin, args, deny(*members)).ids
    assert [i for i in denied if i.startswith("pass:")] == members


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w + b)


def test_a_denied_match_leaves_the_product_and_the_sum_apart() -> None:
    args = [torch.ones(8, 8), torch.ones(8, 8), torch.ones(8)]
    default = compile_only(linear, args, Control())
    members = [i for i in default.ids if i.startswith("match:")]
    assert members and "addmm" in default.source
    assert "addmm" not in compile_only(linear, args, deny(*members)).source


def test_a_denied_lowering_runs_the_aten_kernel() -> None:
    args = [torch.ones(8, 8), torch.ones(8, 8), torch.ones(8)]
    denied = compile_only(linear, args, deny("lower:aten.tanh@tanh"))
    assert "torch.ops.aten.tanh.default(" in denied.source


def convolve(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.conv2d(x, w), w)


def test_one_convolution_can_keep_the_memory_order_of_eager() -> None:
    args = [torch.ones(2, 4, 8, 8), torch.ones(4, 4, 3, 3)]
    with torch.no_grad():
        default = compile_only(convolve, args, Control())
        layouts = [i for i in default.ids if i.startswith("layout:")]
        assert layouts == ["layout:channels_last@conv2d", "layout:channels_last@conv2d_1"]
        denied = compile_only(convolve, args, deny(*layouts))
        first = compile_only(convolve, args, deny(layouts[0]))
        assert [i for i in first.ids if i.startswith("layout:")] == layouts, "the second is asked too"
    assert "(256, 1, 32, 4)" in default.source  # strides of (2, 4, 8, 8) in channels-last order
    assert "(256, 1, 32, 4)" not in denied.source


def drop(x: torch.Tensor) -> torch.Tensor:
    noise = torch.rand_like(x)
    return F.dropout(x, 0.5) + noise


def test_random_ops_are_no_decisions_and_compile_in_the_plain_baseline() -> None:
    plain = compile_and_run(drop, [torch.ones(64)], allow())
    assert flat(plain.outputs)[0].shape == (64,)
    noise = [i for i in plain.ids if i.endswith("@noise")]
    assert not [i for i in noise if i.startswith(("decomp:", "match:", "lower:"))]


def tanh_gradient(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh") * x


def test_gradients_have_decisions_of_their_own_and_their_casts_repair_them() -> None:
    def run(control: Control | None) -> tuple[torch.Tensor, list[str]]:
        x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
        if control is None:
            tanh_gradient(x).float().sum().backward()
            return x.grad, []
        from bisector.inductor import control as controls

        torch._dynamo.reset()
        with controls.activate(control):
            torch.compile(tanh_gradient)(x).float().sum().backward()
        return x.grad, [d.id for d in control.decisions()]

    eager, _ = run(None)
    default, ids = run(Control())
    casts = [i for i in ids if i.startswith("cast:") and "@bwd." in i]
    assert casts
    assert not torch.equal(default, eager)
    assert torch.equal(run(deny(*casts))[0], eager)
