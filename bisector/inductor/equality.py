"""Whether values are equal to the bit, and where they are not. NaN equals NaN, whatever its bits; zeros of
different signs differ.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..core.dtypes import FLOATS
from .tensors import dtype_name

_PACKED = [getattr(torch, "float4_e2m1fn_x2", None)]  # since torch 2.8
_OF_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal: tensors in shape, dtype, device and values, others in type and value, and
    what tuples, lists and dicts hold. A tuple equals a list."""
    if a is b:
        return True
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return type(a) is type(b) and _is_same_number(a, b)
    equal_meta = (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    return equal_meta and not bool(differing(a, b).any())


def _is_same_number(a: Any, b: Any) -> bool:
    if isinstance(a, complex):
        return _is_same_number(a.real, b.real) and _is_same_number(a.imag, b.imag)
    if isinstance(a, float) and a == b == 0.0:
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return bool(a == b or (a != a and b != b))


def differing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The elements at which two tensors of equal shape and dtype differ: (elements,), bool, on the CPU."""
    return parts_differing(parts(a), parts(b)).any(1)


def parts_differing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same, part by part of what `parts` gives: (elements, parts)."""
    ints = _OF_BITS[a.element_size()]
    return (a.view(ints) != b.view(ints)) & ~(a.isnan() & b.isnan())


def parts(x: torch.Tensor) -> torch.Tensor:
    """(elements, parts), contiguous, on the CPU: a complex element has two parts; codes, with which torch
    does not compute, are widened to float32, which holds each of them."""
    x = _plain(x).cpu()
    if x.is_complex():
        x = x.to(torch.complex64) if x.dtype is torch.complex32 else x
        return torch.view_as_real(x).reshape(-1, 2).contiguous()
    if x.dtype in _PACKED:
        x = x.view(torch.uint8)  # codes without any arithmetic
    elif x.is_floating_point() and dtype_name(x.dtype) not in FLOATS:
        x = x.to(torch.float32)
    if x.dtype is torch.bool:
        x = x.to(torch.uint8)
    return x.reshape(-1, 1).contiguous()


def _plain(x: torch.Tensor) -> torch.Tensor:
    """The same values as a strided tensor, without gradients, scales or views that conjugate or negate."""
    x = x.detach()
    if x.layout is not torch.strided:
        x = x.to_dense()
    if x.is_quantized:
        x = x.dequantize()
    return x.resolve_conj().resolve_neg()


def digest(values: Sequence[Any]) -> str:
    """A short hash of values and bits: equal inputs in another process give the same digest."""
    hasher = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            hasher.update(f"{tuple(value.shape)}{value.dtype}".encode())
            value = _plain(value)
            if value.device.type == "meta":
                continue  # no values to distinguish
            flat = value.contiguous().cpu().reshape(-1)
            if flat.numel():
                hasher.update(flat.view(torch.uint8).numpy().tobytes())
        else:
            hasher.update(repr(value).encode())
    return hasher.hexdigest()[:16]
