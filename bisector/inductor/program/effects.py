"""What a call does besides giving values: what it changes in place, and whether it draws random numbers. A
second call then begins with something else.

Whether a script differs from itself because of that is tried: what a call leaves behind is put back before
the next one. The functions that the script compiles are met wherever they are called, plainly too.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...core.program import Effect, EffectKind
from .. import naming
from ..equality import same
from ..generators import Generators
from .call_values import is_tensor
from .reach import CONTAINERS, held

MOST_ELEMENTS = 1 << 16  # of a buffer that is copied before each call
_LAZY = (UninitializedParameter, UninitializedBuffer)
_Versions = dict[str, tuple[torch.Tensor, int]]


@dataclass(frozen=True)
class Before:
    """The state before a call. arguments, state: each tensor by name with its version. copies: of arguments.

    buffers: those of the state, with copies. A change in place raises the version; a batch norm does not
    raise that of its running statistics, so that buffers are held to what they hold.
    """

    arguments: _Versions
    state: _Versions
    copies: dict[str, tuple[torch.Tensor, torch.Tensor]]
    buffers: dict[str, tuple[torch.Tensor, torch.Tensor]]
    lazy: bool
    generators: Generators

    def effects(self) -> tuple[Effect, ...]:
        """What the call has done; asked once it has returned."""
        found = [Effect(EffectKind.MUTATES, name) for name in _changed(self.arguments)]
        held = [name for name, (now, before) in self.buffers.items() if not same(now, before)]
        names = dict.fromkeys((*held, *_changed(self.state)))
        found += [Effect(EffectKind.CHANGES_STATE, name) for name in names]
        found += [Effect(EffectKind.MAKES_LAZY)] if self.lazy else []
        found += [Effect(EffectKind.DRAWS)] if self.generators.drawn() else []
        return tuple(found)

    def kept(self) -> tuple[str, ...]:
        """The arguments that are seen to hold what they held before, to the bit."""
        return tuple(name for name, (now, was) in self.copies.items() if _are_seen_to_be_same(now, was))


def before(model: Any, given: Any) -> Before:
    """model: what was compiled; given: its arguments."""
    arguments = {f"argument {i}": leaf for i, leaf in enumerate(pytree.tree_leaves(given)) if is_tensor(leaf)}
    state = [(name, t) for name, t in held(model) if not any(t is leaf for leaf in arguments.values())]
    lazy = any(isinstance(t, _LAZY) for _, t in state)
    known = {f"`{name}`": t for name, t in state if not isinstance(t, _LAZY)}
    buffers = {n: (t, t.detach().clone()) for n, t in known.items() if _is_buffer(t)}
    copies = {n: (t, t.detach().clone()) for n, t in arguments.items() if _is_small(t)}
    return Before(_versions(arguments), _versions(known), copies, buffers, lazy, Generators())


def _is_buffer(tensor: torch.Tensor) -> bool:
    """Whether it may change without its version: no parameter, and strided memory."""
    return not tensor.requires_grad and _is_small(tensor)


def _is_small(tensor: torch.Tensor) -> bool:
    lazy = isinstance(tensor, _LAZY)
    return not lazy and tensor.layout is torch.strided and tensor.numel() <= MOST_ELEMENTS


def _are_seen_to_be_same(now: torch.Tensor, was: torch.Tensor) -> bool:
    try:
        return same(now, was)
    except RuntimeError:  # its values are not there to look at: a meta tensor, one that `vmap` wraps
        return False


def _versions(tensors: dict[str, torch.Tensor]) -> _Versions:
    return {name: (t, t._version) for name, t in tensors.items() if not t.is_inference()}


def _changed(versions: _Versions) -> list[str]:
    return [name for name, (tensor, version) in versions.items() if tensor._version != version]


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
