"""cfold and prepack: values computed in advance and weights packed in advance, each denied alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, allow_all, compile_and_run, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")

NAN = [torch.tensor([1.0, float("nan")])]


def nothing_left(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 0, x + 1


def test_a_product_with_zero_is_folded_and_keeps_nan_where_that_is_denied() -> None:
    eager, member = list(nothing_left(*NAN)), "cfold:aten.mul@mul"
    default = compile_and_run(nothing_left, NAN, Control())
    assert [i for i in default.ids if i.startswith("cfold:")] == [member]
    assert not default.agrees_with(eager)
    assert compile_and_run(nothing_left, NAN, deny(member)).agrees_with(eager)
    assert compile_and_run(nothing_left, NAN, allow()).agrees_with(eager)
    assert not compile_and_run(nothing_left, NAN, allow(member)).agrees_with(eager)


def filled(x: torch.Tensor) -> torch.Tensor:
    return torch.maximum(x, torch.full_like(x, 2.0))


def test_a_constructor_that_stays_one_is_no_folded_value() -> None:
    assert not [i for i in compile_only(filled, [torch.ones(8)], Control()).ids if i.startswith("cfold:")]


class Net(torch.nn.Module):
    """A convolution and a linear layer, whose weight is scaled by another parameter."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.kernel = torch.nn.Parameter(torch.randn(4, 3, 3, 3, generator=generator))
        self.weight = torch.nn.Parameter(torch.randn(16, 64, generator=generator))
        self.scale = torch.nn.Parameter(torch.randn(64, generator=generator))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        flat = F.conv2d(image, self.kernel).flatten(1)
        return F.linear(flat, self.weight * self.scale)


@pytest.fixture
def frozen() -> Iterator[None]:
    with torch.no_grad(), inductor_config.patch(freezing=True):
        yield


def image() -> list[torch.Tensor]:
    return [torch.randn(7, 3, 6, 6, generator=torch.Generator().manual_seed(1))]


CONVOLUTION, LINEAR, SCALED = "prepack:convolution@conv2d", "prepack:linear/mm@linear", "cfold:aten.mul@mul"


@pytest.mark.usefixtures("frozen")
def test_each_packed_weight_and_each_folded_value_is_a_decision_that_is_denied_alone() -> None:
    default = compile_only(Net(), image(), Control())
    assert {i for i in default.ids if i.startswith(("prepack:", "cfold:"))} == {CONVOLUTION, LINEAR, SCALED}
    lost = {CONVOLUTION: set(), LINEAR: set(), SCALED: {LINEAR}}  # a weight made at run time is not packed
    for member in (CONVOLUTION, LINEAR, SCALED):
        denied = compile_only(Net(), image(), deny(member))
        assert denied.source != default.source, member
        assert {CONVOLUTION, LINEAR, SCALED} - set(denied.ids) == lost[member], member


@pytest.mark.usefixtures("frozen")
def test_listing_what_freezing_does_changes_nothing() -> None:
    assert compile_only(Net(), image()).source == compile_only(Net(), image(), Control()).source


@pytest.fixture
def packed_wrongly() -> Iterator[None]:
    """Whether a packed weight gives other bits hangs on the processor; here its product is too large."""
    library = torch.library.Library("mkl", "IMPL")

    def product(x: torch.Tensor, packed: object, weight: torch.Tensor, *rest: object) -> torch.Tensor:
        return F.linear(x, weight) * 1.001

    library.impl("_mkl_linear", product, "MkldnnCPU", allow_override=True)
    yield
    library._destroy()


@pytest.mark.usefixtures("frozen", "packed_wrongly")
def test_packed_weights_are_the_cause_of_other_values_than_those_of_eager() -> None:
    net = Net()
    eager = [net(*image())]
    default = compile_and_run(net, image(), Control())
    assert not default.agrees_with(eager)
    assert compile_and_run(net, image(), deny(LINEAR)).agrees_with(eager)
    assert not compile_and_run(net, image(), deny(CONVOLUTION)).agrees_with(eager)


@pytest.mark.usefixtures("frozen")
def test_no_denial_leaves_a_weight_in_a_form_that_cannot_be_compiled() -> None:
    net = Net()
    default = compile_only(net, image(), Control())
    torch.testing.assert_close(compile_and_run(net, image(), allow()).outputs, [net(*image())])
    torch.testing.assert_close(
        compile_and_run(net, image(), allow(CONVOLUTION, LINEAR)).outputs, [net(*image())]
    )
    assert compile_only(net, image(), allow_all(*default.ids)).source == default.source
