"""What a float32 product may round its factors to, by torch's settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bisector.inductor.following import local_error
from bisector.inductor.nudges import Nudged, OneUlp
from bisector.inductor.products import factor_eps

TF32, BF16 = 2.0**-10, 2.0**-7


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    matmul, conv = torch.backends.mkldnn.matmul.fp32_precision, torch.backends.mkldnn.conv.fp32_precision
    yield
    torch.backends.mkldnn.matmul.fp32_precision = matmul
    torch.backends.mkldnn.conv.fp32_precision = conv


def factors(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(16, 16, generator=generator).to(dtype) for _ in range(2)]


@pytest.mark.parametrize(("precision", "eps"), [("tf32", TF32), ("bf16", BF16), ("ieee", 0.0)])
def test_a_matrix_product_may_round_its_factors_as_the_setting_says(precision: str, eps: float) -> None:
    torch.backends.mkldnn.matmul.fp32_precision = precision
    assert factor_eps("mm", factors()) == eps
    assert factor_eps("conv2d", factors()) == factor_eps("sum", factors()[:1]) == 0.0


def test_factors_of_another_dtype_are_kept() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    assert factor_eps("mm", factors(torch.float64)) == factor_eps("mm", factors(torch.bfloat16)) == 0.0


def moved(run: object, at: torch.Tensor) -> float:
    assert isinstance(run, torch.Tensor)
    return float((run - at).abs().max() / at.abs().max())


@pytest.mark.parametrize(("precision", "least", "most"), [("bf16", BF16 / 8, 4 * BF16), ("ieee", 0, 1e-5)])
def test_rounding_moves_a_product_by_what_its_factors_may_be_rounded_to(
    precision: str, least: float, most: float
) -> None:
    x, y = factors()
    exact = x @ y
    torch.backends.mkldnn.matmul.fp32_precision = precision
    with Nudged(0):
        by_dispatch = x @ y
    gm = torch.fx.symbolic_trace(lambda a, b: torch.matmul(a, b))
    by_node = OneUlp(gm, 0).run(x, y)
    assert least <= moved(by_dispatch, exact) <= most
    assert least <= moved(by_node, exact) <= most


def rounded(value: torch.Tensor, bits: int) -> torch.Tensor:
    """To a format of so many bits after the point."""
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp((mantissa * 2 ** (bits + 1)).round() / 2 ** (bits + 1), exponent)


@pytest.mark.parametrize(("eps", "beyond"), [(TF32, False), (0.0, True)])
def test_an_error_of_rounded_factors_is_beyond_rounding_unless_they_may_be_rounded(
    eps: float, beyond: bool
) -> None:
    x, y = factors()
    asked = local_error.OtherWays(
        lambda: x.double() @ y.double(), magnitudes=lambda: x.double().abs() @ y.double().abs(), factors=eps
    )
    actual = rounded(x, 10) @ rounded(y, 10)
    found = local_error.local(actual, x @ y, local_error.Scale.WHOLE, asked)
    assert found.arises and found.beyond == found.wrong == beyond


def test_a_larger_error_is_beyond_rounding_all_the_same() -> None:
    x, y = factors()
    asked = local_error.OtherWays(
        lambda: x.double() @ y.double(), magnitudes=lambda: x.double().abs() @ y.double().abs(), factors=TF32
    )
    found = local_error.local(x * (1 + 2**-8) @ y, x @ y, local_error.Scale.WHOLE, asked)
    assert found.beyond and found.wrong
