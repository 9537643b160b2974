"""The random generators that a script may draw from: torch's, Python's and numpy's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


class Generators:
    """Their states as they are now; numpy's where it is imported, and those of GPUs where CUDA is up."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._python = random.getstate()
        self._numpy = _numpy_state()

    def put_back(self) -> None:
        """Give each the state that it had; can be done several times."""
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)

    def drawn(self) -> frozenset[str]:
        """The libraries (torch, random, numpy) from whose generators was drawn since."""
        found = set()
        cuda = torch.cuda.get_rng_state_all() if self._cuda else []
        pairs = zip([self._torch, *self._cuda], [torch.get_rng_state(), *cuda], strict=True)
        if not all(torch.equal(before, now) for before, now in pairs):
            found.add("torch")
        if random.getstate() != self._python:
            found.add("random")
        if self._numpy is not None and _comparable(_numpy_state()) != _comparable(self._numpy):
            found.add("numpy")
        return frozenset(found)


def _numpy_state() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random.get_state()


def _comparable(state: Any) -> tuple[Any, ...]:
    kind, keys, *rest = state
    return (kind, keys.tobytes(), *rest)
