"""Whether rounding makes of a script what it shows compiled: the script is run with compilation off, each
operation of its calls moved by some steps of its dtype (`nudging`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from ..moves import WIDE
from ..nudges import Nudged, nudge
from .gradients import watch_gradients
from .substitution import left_by


class Rounded:
    """seed: of the draws."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.drawn = 0

    def before(self, index: int, model: Any, given: Any) -> None:
        """The call is about to begin."""

    def mode(self) -> AbstractContextManager[Any]:
        """Under which the call runs."""
        return Nudged(self._next(), WIDE)

    def returned(self, index: int, model: Any, result: Any, given: Any) -> Any:
        """The call has returned; gives what the script gets."""
        watch_gradients(left_by(model, given), lambda path, count, gradient: self._moved(gradient))
        return result

    def _moved(self, gradient: torch.Tensor) -> torch.Tensor | None:
        plain = gradient.layout is torch.strided and gradient.is_floating_point()
        return nudge(gradient, self._next(), WIDE) if plain else None

    def _next(self) -> int:
        self.drawn += 1
        return self.seed * 1_000_003 + self.drawn
