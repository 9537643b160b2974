"""How finely tensors hold numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..core.dtypes import EPS, FLOATS
from .tensors import dtype_name

FLOAT_DTYPES = tuple(getattr(torch, name) for name in FLOATS)


def eps_of(dtype: torch.dtype) -> float:
    """Machine epsilon, of a complex dtype that of its parts; 0 of integers and codes, which do not round."""
    return EPS.get(dtype_name(dtype), 0.0)


def rounding_of(value: torch.Tensor) -> float:
    """The machine epsilon of a tensor of real floats, infinite for any other."""
    return eps_of(value.dtype) if value.dtype in FLOAT_DTYPES else float("inf")


def finest_of(values: Iterable[Any]) -> float:
    """The machine epsilon of the finest dtype of real floats among the tensors of these values; 1 where there
    is none."""
    return min((1.0, *(rounding_of(tensor) for tensor in _tensors(values))))


def coarsest_of(values: Iterable[Any]) -> float:
    """The machine epsilon of the coarsest dtype among the tensors of these values; 0 where none rounds."""
    return max((eps_of(tensor.dtype) for tensor in _tensors(values)), default=0.0)


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    leaves = (leaf for value in values for leaf in pytree.tree_leaves(value))
    return (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
