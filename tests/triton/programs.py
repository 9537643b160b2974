"""Small programs whose Triton code shows one kind of decision each: (function, input shapes, dtype)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def two_products(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    first = x * y
    second = first + z
    third = second * x
    return third - y


def shifted_exp(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    top = (x * scale).amax(-1, keepdim=True)
    return torch.exp(x * scale - top).sum(-1)


def two_kernels(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * y + x, x.t() * y.t() - y.t()[:3].sum()


def dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sum(-1)


def divided(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x / y + 1).log() * y


def quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x / y + 1) * y


def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x / y + x * y


def halves(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rounded = x * y
    return rounded, (rounded.float() * 3).sum(-1)


def inlined_half(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).float() * 3


def scale_codes(x: torch.Tensor) -> torch.Tensor:
    """pytorch#178045: exponents of a microscaling format, rounded up."""
    return (torch.ceil(torch.log2(x)).clamp(-127, 127) + 127).to(torch.uint8)


Program = Callable[..., Any]
F, H = torch.float32, torch.float16
PROGRAMS: dict[str, tuple[Program, list[tuple[int, ...]], torch.dtype]] = {
    "two_products": (two_products, [(1024,)] * 3, F),
    "shifted_exp": (shifted_exp, [(64, 64), (1,)], F),
    "unrolled_exp": (shifted_exp, [(64, 4), (1,)], F),
    "two_kernels": (two_kernels, [(64, 64), (64, 64)], F),
    "dot": (dot, [(64, 512), (64, 512)], F),
    "long_dot": (dot, [(4, 1 << 18), (4, 1 << 18)], F),
    "divided": (divided, [(1024,), (1024,)], F),
    "inlined_half": (inlined_half, [(1024,), (1024,)], H),
    "quotient": (quotient, [(1024,), (1024,)], F),
    "both": (both, [(1024,), (1024,)], F),
    "scale_codes": (scale_codes, [(1024,)], F),
    "halves": (halves, [(64, 64), (64, 64)], H),
}
