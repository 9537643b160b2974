"""remat: forward values that the backward graph computes again, each denied alone."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from bisector.inductor.control import Control, activate
from tests.inductor.helpers import allow, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    gate = torch.sigmoid(x * w)
    bent = torch.tanh(gate + 1)
    return (gate * bent).cos().sum()


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, 16, generator=generator).requires_grad_() for n in (16, 1)]


def recomputed(ids: list[str]) -> list[str]:
    return [i for i in ids if i.startswith("remat:")]


def gradient(control: Control | None) -> torch.Tensor:
    x, w = inputs()
    torch._dynamo.reset()
    with nullcontext() if control is None else activate(control):  # the backward compiles when it runs
        (gated if control is None else torch.compile(gated))(x, w).backward()
    assert x.grad is not None
    return x.grad


def test_each_recomputed_value_is_a_decision_and_is_saved_where_it_is_denied() -> None:
    default = compile_only(gated, inputs(), Control())
    members = recomputed(default.ids)
    assert "remat:aten.sigmoid@gate" in members
    for member in members:
        denied = compile_only(gated, inputs(), deny(member))
        assert denied.source != default.source, member
        assert member in denied.ids


def test_listing_recomputed_values_changes_nothing() -> None:
    assert compile_only(gated, inputs()).source == compile_only(gated, inputs(), Control()).source


def test_what_is_computed_again_is_named_as_part_of_the_backward_graph() -> None:
    control = Control()
    gradient(control)
    inlined = {d.id.partition(":")[2] for d in control.decisions() if d.kind == "inline"}
    assert {"aten.add@add", "aten.add@bwd.add"} <= inlined, "a sum has no gradient of its own"


@pytest.mark.live
@pytest.mark.parametrize("control", [deny("remat:aten.sigmoid@gate"), allow()])
def test_a_gradient_with_saved_values_is_the_same_up_to_rounding(control: Control) -> None:
    torch.testing.assert_close(gradient(control), gradient(None))


def test_a_program_without_gradients_recomputes_nothing() -> None:
    assert recomputed(compile_only(gated, [x.detach() for x in inputs()], Control()).ids) == []
