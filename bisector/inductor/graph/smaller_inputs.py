"""Inputs cut down: without the gaps that slicing leaves, and with simpler values."""

from __future__ import annotations

import torch


def compact(x: torch.Tensor) -> torch.Tensor:
    """A copy without the gaps that slicing left, its dimensions in the same order in memory."""
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda d: (-strides[d], d))
    back = [order.index(d) for d in range(x.dim())]
    return x.permute(order).contiguous().permute(back)


def simplify(x: torch.Tensor, how: str) -> torch.Tensor:
    """`zeros`, `ones`, or `digits:N`: each value rounded to N significant decimal digits."""
    if how == "zeros":
        return torch.zeros_like(x)
    if how == "ones":
        return torch.ones_like(x)
    digits = int(how.removeprefix("digits:"))
    rounded = [_round(v, digits) for v in x.reshape(-1).double().tolist()]
    flat = torch.tensor(rounded, dtype=torch.float64).to(x.dtype).reshape(x.shape)
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(flat)


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The values times the factor, each product rounded once to the dtype."""
    return (x.double() * factor).to(x.dtype)


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
