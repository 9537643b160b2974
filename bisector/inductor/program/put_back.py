"""What a call leaves behind is put back before the next one, to try whether a script that differs from itself
does so because of it: the functions that it compiles are met wherever they are called, plainly too.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...core.program import EffectKind
from .. import naming
from ..equality import same
from ..generators import Generators
from .reach import CONTAINERS

_GENERATORS = (EffectKind.DRAWS, EffectKind.MAKES_LAZY)
_Held = dict[int, tuple[torch.Tensor, torch.Tensor]]  # by id: a tensor, and a copy of what it held


class PutBack:
    """Puts one kind of effect back. codes: where the compiled functions are written, as `file:line`."""

    def __init__(self, kind: EffectKind, codes: Sequence[str]) -> None:
        self.kind = kind
        self.codes = frozenset(codes)
        self._lines = frozenset(int(code.rpartition(":")[2]) for code in codes)
        self._within: types.FrameType | None = None
        self._generators: Generators | None = None
        self._first: _Held = {}  # what each held before the first call
        self._before: _Held = {}  # the same at the beginning of the call that runs
        self._changed: set[int] = set()

    def begin(self) -> None:
        """From now on, in this thread, until it ends."""
        sys.setprofile(self._met)

    def _met(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame is self._within:
            self._within = None
            self._ends()
        elif event == "call" and self._within is None and self._is_one(frame.f_code):
            self._within = frame
            self._begins(frame)

    def _is_one(self, code: types.CodeType) -> bool:
        return code.co_firstlineno in self._lines and place_of(code) in self.codes

    def _begins(self, frame: types.FrameType) -> None:
        if self.kind in _GENERATORS:
            if self._generators is None:
                self._generators = Generators()
            self._generators.put_back()
            return
        for key in self._changed:
            tensor, value = self._first[key]
            tensor.data.copy_(value)  # autograd does not see it
        found = {id(t): t for t in self._tensors(frame) if not t.is_inference()}
        self._before = {key: (tensor, tensor.detach().clone()) for key, tensor in found.items()}
        self._first = {**self._before, **self._first}

    def _ends(self) -> None:
        """By what they hold: a batch norm does not raise the version of its running statistics."""
        pairs = self._before.items()
        self._changed |= {key for key, (now, before) in pairs if not same(now.detach(), before)}
        self._before = {}

    def _tensors(self, frame: types.FrameType) -> Iterator[torch.Tensor]:
        """Those that the call is given; of state, those of modules that it is given or reads."""
        yield from _held(list(frame.f_locals.values()), self.kind is EffectKind.CHANGES_STATE)
        if self.kind is EffectKind.CHANGES_STATE:
            names = frame.f_code.co_names
            yield from _held([frame.f_globals[name] for name in names if name in frame.f_globals], True)


def place_of(code: types.CodeType) -> str:
    """Where a function is written."""
    return naming.place(code.co_filename, code.co_firstlineno)


def _held(values: Sequence[Any], of_modules: bool, depth: int = 2) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.layout is torch.strided and value.device.type != "meta":
                yield value
        elif isinstance(value, torch.nn.Module):
            if of_modules:
                state = (*value.parameters(), *value.buffers())
                yield from (tensor for tensor in state if not torch.nn.parameter.is_lazy(tensor))
        elif type(value) in CONTAINERS and depth:
            inner = list(value.values() if isinstance(value, dict) else value)
            yield from _held(inner, of_modules, depth - 1)
