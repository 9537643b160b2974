"""What a call does beside giving values: what it changes in place, and whether it draws random numbers. A
second call then begins with something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...core.program import Effect, EffectKind
from ..generators import Generators
from .call_values import held, is_tensor

_LAZY = (UninitializedParameter, UninitializedBuffer)
_Versions = dict[str, tuple[torch.Tensor, int]]


@dataclass(frozen=True)
class Before:
    """The state before a call. arguments, state: each tensor by name with its version.

    A change in place raises the version; a batch norm keeps that of its running statistics, and raises that
    of its counter.
    """

    arguments: _Versions
    state: _Versions
    lazy: bool
    generators: Generators

    def effects(self) -> tuple[Effect, ...]:
        """What the call has done; asked once it has returned."""
        found = [Effect(EffectKind.MUTATES, name) for name in _changed(self.arguments)]
        found += [Effect(EffectKind.CHANGES_STATE, name) for name in _changed(self.state)]
        found += [Effect(EffectKind.MAKES_LAZY)] if self.lazy else []
        found += [Effect(EffectKind.DRAWS)] if self.generators.drawn() else []
        return tuple(found)


def before(model: Any, given: Any) -> Before:
    """model: what was compiled; given: its arguments."""
    arguments = {f"argument {i}": leaf for i, leaf in enumerate(pytree.tree_leaves(given)) if is_tensor(leaf)}
    state = [(name, t) for name, t in held(model) if not any(t is leaf for leaf in arguments.values())]
    lazy = any(isinstance(t, _LAZY) for _, t in state)
    known = {f"`{name}`": t for name, t in state if not isinstance(t, _LAZY)}
    return Before(_versions(arguments), _versions(known), lazy, Generators())


def _versions(tensors: dict[str, torch.Tensor]) -> _Versions:
    return {name: (t, t._version) for name, t in tensors.items() if not t.is_inference()}


def _changed(versions: _Versions) -> list[str]:
    return [name for name, (tensor, version) in versions.items() if tensor._version != version]
