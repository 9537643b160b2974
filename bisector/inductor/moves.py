"""How far rounding alone moves each element of a program's outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..core.judge import EPS
from . import measure
from .tensors import dtype_name

# Steps of the dtype that an operation of eager and the same one compiled are at most apart: erf, exp and
# tanh of two libraries are by some three or four.
WIDE = 8


class Moves:
    """How far rounding moves each element of eager's outputs, at most, over the runs that were noted."""

    def __init__(self, eager: Mapping[str, Any]) -> None:
        self.eager = {path: t for path, v in eager.items() if (t := _tensor(v)) is not None}
        self._moved: dict[str, torch.Tensor] = {}
        self._reached: dict[str, torch.Tensor] = {}

    def note(self, outputs: Mapping[str, Any]) -> None:
        """A run in which each operation is moved by a step of the dtype."""
        self._note(outputs, self._moved)
        self.note_wide(outputs)

    def note_wide(self, outputs: Mapping[str, Any]) -> None:
        """A run in which each operation is moved by as many as WIDE steps."""
        self._note(outputs, self._reached)

    @property
    def has_exact(self) -> bool:
        """Whether an output has no rounding of its own, so that what is rounded before it is asked for."""
        return any(map(_is_exact, self.eager.values()))

    def _note(self, outputs: Mapping[str, Any], known: dict[str, torch.Tensor]) -> None:
        for path, value in self.eager.items():
            other = _tensor(outputs.get(path))
            if known is self._reached and not _is_exact(value):
                continue
            if other is not None and (other.shape, other.dtype) == (value.shape, value.dtype):
                apart = (measure.parts(other).double() - measure.parts(value).double()).abs()
                apart = apart.nan_to_num(0.0, 0.0, 0.0)
                known[path] = torch.maximum(known[path], apart) if path in known else apart

    def beside(self, exact: Mapping[str, Any] | None) -> dict[str, measure.Exact]:
        """The outputs of a run in double precision, each with how far its elements move; without a value
        where there is no such run."""
        wide = {} if exact is None else exact
        return {
            path: measure.Exact(_tensor(wide.get(path)), self._moved.get(path), self._reached.get(path))
            for path in self.eager
        }


def _is_exact(value: torch.Tensor) -> bool:
    return dtype_name(value.dtype) not in EPS


def _tensor(value: Any) -> torch.Tensor | None:
    """A tensor, or a whole number as one; None for anything else."""
    if isinstance(value, int) and abs(value) < torch.iinfo(torch.int64).max:
        return torch.tensor(value)
    return value if isinstance(value, torch.Tensor) else None
