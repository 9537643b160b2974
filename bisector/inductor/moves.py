"""How far rounding alone moves each element of a program's outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from . import measure


class Moves:
    """How far one step of the dtype at each operation moves each element of eager's outputs, at most, over
    the runs that were noted."""

    def __init__(self, eager: Mapping[str, Any]) -> None:
        self.eager = {path: v for path, v in eager.items() if isinstance(v, torch.Tensor)}
        self._moved: dict[str, torch.Tensor] = {}

    def note(self, outputs: Mapping[str, Any]) -> None:
        for path, value in self.eager.items():
            other = outputs.get(path)
            if isinstance(other, torch.Tensor) and (other.shape, other.dtype) == (value.shape, value.dtype):
                apart = (measure.parts(other).double() - measure.parts(value).double()).abs()
                apart = apart.nan_to_num(0.0, 0.0, 0.0)
                known = self._moved.get(path)
                self._moved[path] = apart if known is None else torch.maximum(known, apart)

    def beside(self, exact: Mapping[str, Any] | None) -> dict[str, measure.Exact] | None:
        """The outputs of a run in double precision, each with how far its elements move; None where there
        is no such run."""
        if exact is None:
            return None
        tensors = {path: value for path, value in exact.items() if isinstance(value, torch.Tensor)}
        return {path: measure.Exact(value, self._moved.get(path)) for path, value in tensors.items()}
