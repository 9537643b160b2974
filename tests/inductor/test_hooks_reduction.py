"""unroll and welford: how a reduction is computed, each denied alone."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as inductor_config

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(-1), (x * 2).prod(-1)


def test_each_small_reduction_is_unrolled_by_a_decision_of_its_own() -> None:
    args = [torch.randn(64, 4)]
    default = compile_only(rows, args, Control())
    unrolled = [i for i in default.ids if i.startswith("unroll:")]
    assert unrolled == ["unroll:aten.sum@sum_1", "unroll:aten.prod@prod"]
    sources = {default.source}
    for member in unrolled:
        denied = compile_only(rows, args, deny(member))
        assert [i for i in denied.ids if i.startswith("unroll:")] == unrolled
        sources.add(denied.source)
    assert len(sources) == 3


def test_the_plain_baseline_unrolls_nothing() -> None:
    args = [torch.randn(64, 4)]
    plain = compile_only(rows, args, allow()).source
    with inductor_config.patch(unroll_reductions_threshold=0):
        assert compile_only(rows, args, allow()).source == plain


def test_a_reduction_that_is_not_unrolled_gives_the_same_result_and_is_no_decision() -> None:
    args = [torch.randn(8, 4, generator=torch.Generator().manual_seed(0))]
    denied = compile_and_run(rows, args, deny("unroll:aten.sum@sum_1"))
    torch.testing.assert_close(denied.outputs, list(rows(*args)))
    assert not [i for i in compile_only(rows, [torch.randn(8, 64)], Control()).ids if i.startswith("unroll:")]


def smallest(x: torch.Tensor) -> torch.Tensor:
    return x.argmin(-1)


def test_the_place_of_a_minimum_is_unrolled_and_rolled_alike() -> None:
    args = [torch.randn(16, 4, generator=torch.Generator().manual_seed(0))]
    for control in (Control(), allow()):
        assert compile_and_run(smallest, args, control).agrees_with([smallest(*args)])


def variance(x: torch.Tensor) -> torch.Tensor:
    return torch.var(x, dim=-1)


@pytest.mark.parametrize(("n", "how"), [(64, "in two passes"), (4096, "by Welford's recurrence")])
def test_the_algorithm_of_a_variance_can_be_changed(n: int, how: str) -> None:
    args = [torch.randn(4, n, generator=torch.Generator().manual_seed(0))]
    default = compile_and_run(variance, args, Control())
    [decision] = [d for d in default.control.decisions() if d.kind == "welford"]
    assert decision.id == "welford:aten.var@var"
    assert how in decision.text
    denied = compile_and_run(variance, args, deny(decision.id))
    assert denied.source != default.source
    assert decision.id in denied.ids
    torch.testing.assert_close(denied.outputs, [variance(*args)])
