"""What a call does besides giving values: what it changes in place, and whether it draws random numbers. A
second call then begins with something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...core.program import Effect, EffectKind
from ..equality import same
from ..generators import Generators
from .call_values import is_tensor
from .reach import held

MOST_ELEMENTS = 1 << 16  # of a buffer that is copied before each call
_LAZY = (UninitializedParameter, UninitializedBuffer)
_Versions = dict[str, tuple[torch.Tensor, int]]


@dataclass(frozen=True)
class Before:
    """The state before a call. arguments, state: each tensor by name with its version.

    buffers: those of the state, with copies. A change in place raises the version; a batch norm does not
    raise that of its running statistics, so that buffers are held to what they hold.
    """

    arguments: _Versions
    state: _Versions
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


def before(model: Any, given: Any) -> Before:
    """model: what was compiled; given: its arguments."""
    arguments = {f"argument {i}": leaf for i, leaf in enumerate(pytree.tree_leaves(given)) if is_tensor(leaf)}
    state = [(name, t) for name, t in held(model) if not any(t is leaf for leaf in arguments.values())]
    lazy = any(isinstance(t, _LAZY) for _, t in state)
    known = {f"`{name}`": t for name, t in state if not isinstance(t, _LAZY)}
    buffers = {n: (t, t.detach().clone()) for n, t in known.items() if _is_buffer(t)}
    return Before(_versions(arguments), _versions(known), buffers, lazy, Generators())


def _is_buffer(tensor: torch.Tensor) -> bool:
    """Whether it may change without its version: no parameter, and strided memory."""
    return not tensor.requires_grad and tensor.layout is torch.strided and tensor.numel() <= MOST_ELEMENTS


def _versions(tensors: dict[str, torch.Tensor]) -> _Versions:
    return {name: (t, t._version) for name, t in tensors.items() if not t.is_inference()}


def _changed(versions: _Versions) -> list[str]:
    return [name for name, (tensor, version) in versions.items() if tensor._version != version]
