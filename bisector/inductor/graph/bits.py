"""Exact comparison of tensors."""

from __future__ import annotations

from typing import Any

import torch


def same_values(a: Any, b: Any) -> bool:
    """Whether the two are bit-equal, tensor by tensor through tuples and lists; NaN equals NaN.

    Shapes, dtypes and devices must be equal too.
    """
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_values(x, y) for x, y in zip(a, b, strict=True))
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return type(a) is type(b) and bool(a == b or (a != a and b != b))
    if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
        return False
    unequal = (raw_bytes(a) != raw_bytes(b)).any(dim=1)
    return not (unequal & ~(_nan(a) & _nan(b))).any().item()


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the elements: (numel, bytes of one number); a complex element is two numbers."""
    flat = _numbers(tensor)
    return flat.view(torch.uint8).reshape(flat.numel(), flat.element_size())


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    return plain.reshape(-1)


def _nan(tensor: torch.Tensor) -> torch.Tensor:
    flat = _numbers(tensor)
    if not flat.is_floating_point():
        return torch.zeros(flat.shape, dtype=torch.bool, device=flat.device)
    return flat.to(torch.float64).isnan()
