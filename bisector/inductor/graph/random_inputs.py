"""Random numbers that one call says: drawn by a generator of their own, and multiplied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch

DRAWN = {"randn": torch.randn, "rand": torch.rand}
SEEDS = 16  # what a case draws, from 0 on
# Of more elements only those of the first seed are compared: each draw takes time.
MANY = 16_384


def drawn(draw: str, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Numbers for the input in its dtype, drawn in float32."""
    generator = torch.Generator().manual_seed(seed)
    return DRAWN[draw](x.shape, dtype=torch.float32, generator=generator).to(x.dtype)


def drawn_forms(value: torch.Tensor, default_dtype: torch.dtype | None) -> Iterator[str]:
    """Calls on the CPU that could give these floating-point values; the caller tries whether one does."""
    cast = "" if value.dtype is torch.float32 else f".to({value.dtype})"
    own = "" if default_dtype is torch.float32 else ", dtype=torch.float32"
    for seed, draw in product(range(SEEDS if value.numel() <= MANY else 1), DRAWN):
        factor = _factor(value, drawn(draw, value, seed))
        if factor is not None:
            generator = f"torch.Generator().manual_seed({seed})"
            times = "" if factor == 1 else f" * {factor:.0f}"
            yield f"torch.{draw}({tuple(value.shape)}{own}, generator={generator}){cast}{times}"


def _factor(value: torch.Tensor, numbers: torch.Tensor) -> float | None:
    """The power of two, at least 1, by which the numbers are multiplied; None where they are others."""
    first = int(numbers.reshape(-1).ne(0).to(torch.uint8).argmax())
    factor = value.reshape(-1)[first].item() / (numbers.reshape(-1)[first].item() or math.nan)
    whole = math.isfinite(factor) and factor >= 1 and math.frexp(factor)[0] == 0.5
    return factor if whole and torch.equal(numbers * factor, value.cpu()) else None
