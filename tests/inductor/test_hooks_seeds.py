"""A known divergence (PyTorch issue 121558) and the pair of decisions that makes it."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as inductor_config

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, compile_and_run, deny

pytestmark = pytest.mark.usefixtures("compiler")

INLINE, FMA = "inline:aten.mul@mul_1", "fma:sub@mul_1"


def shifted_exp_sum(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    top = (x * scale).amax(-1, keepdim=True)
    return torch.exp(x * scale - top).sum(-1)


def disagrees(control: Control) -> bool:
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(64, 64, generator=generator) * 1e4, torch.rand(1, generator=generator) * 1e4]
    eager = shifted_exp_sum(*args)
    with inductor_config.patch({"cpp.enable_floating_point_contract_flag": "fast"}):
        compiled = compile_and_run(shifted_exp_sum, args, control).outputs[0]
    return not torch.allclose(compiled, eager, rtol=1.3e-6, atol=1e-5, equal_nan=True)


def test_a_recomputed_and_contracted_product_diverges_only_with_both() -> None:
    assert disagrees(Control())
    assert not disagrees(deny(INLINE))
    assert not disagrees(deny(FMA))
    assert not disagrees(allow())
    assert not disagrees(allow(INLINE))
    assert not disagrees(allow(FMA))
    assert disagrees(allow(INLINE, FMA))


@pytest.mark.parametrize("other", ["inline:aten.mul@mul", "inline:aten.sub@sub", "vec:exp@exp"])
def test_no_other_decision_repairs_it(other: str) -> None:
    assert disagrees(deny(other))
