"""vec: one operation, or a whole loop, without vector code."""

from __future__ import annotations

import pytest
import torch

from bisector.inductor.control import Control
from bisector.inductor.hooks.vec import has_vector_form
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny

pytestmark = [
    pytest.mark.usefixtures("compiler"),
    pytest.mark.skipif("DEFAULT" in torch.backends.cpu.get_cpu_capability(), reason="no vector unit"),
]

INF = float("inf")


def remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.remainder(a, b)


def dividends() -> list[torch.Tensor]:
    return [torch.tensor([5.5, -5.5, 1e20, 7.0] * 8), torch.tensor([INF, -INF, 3.0, 0.7] * 8)]


def many_functions(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    size = x.abs()
    return (
        x.erf(), x.exp(), x.tanh(), size.log(), size.log2(), size.log1p(), size.rsqrt(), x.sigmoid(),
        x.expm1(), size.pow(y), torch.remainder(x, y), torch.fmod(x, y), torch.atan2(x, y),
        torch.hypot(x, y), x.sin(),
    )  # fmt: skip


def function_inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(77, generator=generator) * 3, torch.randn(77, generator=generator)]


def test_denying_one_vector_operation_repairs_it() -> None:
    eager = [remainder(*dividends())]
    default = compile_and_run(remainder, dividends(), Control())
    assert "vec:remainder@remainder" in default.ids
    assert not default.agrees_with(eager)
    lanes = compile_and_run(remainder, dividends(), deny("vec:remainder@remainder"))
    assert lanes.agrees_with(eager)
    assert "at::vec::Vectorized<float>::loadu" in lanes.source


def test_lane_by_lane_gives_the_bits_of_the_scalar_loop() -> None:
    ids = compile_only(many_functions, function_inputs(), Control()).ids
    operations = [i for i in ids if i.startswith("vec:") and not i.startswith("vec:loop")]
    loops = [i for i in ids if i.startswith("vec:loop")]
    assert len(operations) == 15
    lanes = compile_and_run(many_functions, function_inputs(), deny(*operations))
    scalar = compile_and_run(many_functions, function_inputs(), deny(*loops))
    assert lanes.agrees_with(scalar.outputs)
    assert "Vectorized" in lanes.source and "Vectorized" not in scalar.source


def test_one_loop_that_is_denied_leaves_its_whole_nest_scalar() -> None:
    ids = compile_only(many_functions, function_inputs(), Control()).ids
    loops = [i for i in ids if i.startswith("vec:loop")]
    assert len(loops) > 1
    assert "Vectorized" not in compile_only(many_functions, function_inputs(), deny(loops[0])).source


def test_the_plain_baseline_is_scalar_until_one_operation_is_allowed() -> None:
    assert "Vectorized" not in compile_only(many_functions, function_inputs(), allow()).source
    source = compile_only(many_functions, function_inputs(), allow("vec:erf@erf")).source
    assert ".erf()" in source and ".tanh()" not in source


def test_exact_operations_are_no_decisions() -> None:
    assert not has_vector_form("add") and not has_vector_form("sqrt")
    assert has_vector_form("erf")
