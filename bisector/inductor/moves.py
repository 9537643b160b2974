"""How far rounding alone moves each element of a program's outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from ..core.accuracy import WIDE_DRAWS
from . import measure
from .equality import parts
from .rounding import eps_of

# Most steps of the dtype between the results of one operation in eager and compiled: erf, exp and tanh of
# two libraries differ by some three or four.
WIDE = 8
# Eager's outputs with each operation moved: by a seed, and by as many steps of the dtype.
Moved = Callable[[int, int], Mapping[str, Any]]


class Moves:
    """How far rounding moves each element of eager's outputs, at most. draws: how many runs are made with one
    step at each operation; those with several are made once they are asked for."""

    def __init__(self, eager: Mapping[str, Any], moved: Moved | None = None, draws: int = 0) -> None:
        self.eager = {path: t for path, v in eager.items() if (t := _tensor(v)) is not None}
        self.run = moved
        self.draws = draws
        self._moved: dict[str, torch.Tensor] = {}
        self._reached: dict[str, torch.Tensor] | None = None

    def by_one_step(self) -> Iterator[Mapping[str, Any]]:
        """The outputs of each run with one step, which is noted."""
        for seed in range(self.draws):
            assert self.run is not None
            outputs = self.run(seed, 1)
            self._note(outputs, self._moved)
            yield outputs

    def references(self, exact: Mapping[str, Any] | None) -> dict[str, measure.Exact]:
        """The outputs of a run in double precision, each with how far its elements move; without a value
        where there is no such run. Of an output without rounding of its own it is known too what moves its
        elements as far as they differ."""
        wide = {} if exact is None else exact

        def reached(path: str) -> torch.Tensor | None:
            return None if eps_of(self.eager[path].dtype) else self._reaches(path)

        return {
            path: measure.Exact(_tensor(wide.get(path)), self._moved.get(path), partial(reached, path))
            for path in self.eager
        }

    def at_each_element(self) -> dict[str, measure.Exact]:
        """Without a run in double precision: of every output, whether rounding moves its elements as far as
        they differ."""
        return {
            path: measure.Exact(None, self._moved.get(path), partial(self._reaches, path))
            for path in self.eager
        }

    def _reaches(self, path: str) -> torch.Tensor | None:
        """How far as many as WIDE steps at each operation move an output."""
        if self._reached is None:
            self._reached = dict(self._moved)
            for seed in range(WIDE_DRAWS * self.draws):
                self._note(self._moved_far(seed), self._reached)
        return self._reached.get(path)

    def _moved_far(self, seed: int) -> Mapping[str, Any]:
        """Nothing where the program refuses values so far off, such as an index that is out of range."""
        assert self.run is not None
        try:
            return self.run(seed, WIDE)
        except Exception:  # noqa: BLE001 - it may raise anything, and tells nothing of rounding then
            return {}

    def _note(self, outputs: Mapping[str, Any], known: dict[str, torch.Tensor]) -> None:
        for path, value in self.eager.items():
            other = _tensor(outputs.get(path))
            if other is not None and (other.shape, other.dtype) == (value.shape, value.dtype):
                distance = (parts(other).double() - parts(value).double()).abs()
                distance = distance.nan_to_num(0.0, 0.0, 0.0)
                known[path] = torch.maximum(known[path], distance) if path in known else distance


def _tensor(value: Any) -> torch.Tensor | None:
    """A tensor, or a whole number as one; None for anything else."""
    if isinstance(value, int) and abs(value) < torch.iinfo(torch.int64).max:
        return torch.tensor(value)
    return value if isinstance(value, torch.Tensor) else None
