"""Other inputs like the recorded ones, drawn from their own values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

FEW = 8  # a tensor of so few different values that repeat (a mask, ones) keeps them; they change places only
LOOKED_AT = 4096  # values that tell whether there are few
# Redrawn values stay within the range of the recorded ones and on their side of zero.
SHRINK = (0.5, 1.0)


def redrawn(args: Sequence[Any], seed: int) -> list[Any]:
    """Floating-point inputs with other values like the recorded ones; everything else as it is.

    Integers index and count, and inputs that share memory are views of each other: both keep what they are.
    """
    generator = torch.Generator().manual_seed(seed)
    plain = [a for a in args if isinstance(a, torch.Tensor) and a.layout is torch.strided and a.numel() > 1]
    shared = Counter(a.untyped_storage().data_ptr() for a in plain)
    drawn = {
        id(a): _redraw(a, generator)
        for a in plain
        if a.is_floating_point() and shared[a.untyped_storage().data_ptr()] == 1 and 0 not in a.stride()
    }
    return [drawn.get(id(a), a) for a in args]


def _redraw(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The values at other places, each a little smaller; with the strides of the recorded tensor."""
    values = x.detach().double().cpu().reshape(-1)
    values = values[torch.randperm(len(values), generator=generator)]
    looked_at = values[:LOOKED_AT]
    if len(different := looked_at.unique()) > FEW or len(different) == len(looked_at):
        low, high = SHRINK
        values = values * (low + (high - low) * torch.rand(len(values), generator=generator))
    like = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return like.copy_(values.reshape(x.shape))
