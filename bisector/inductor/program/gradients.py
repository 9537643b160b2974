"""What backward passes bring to the tensors that a call was given and reaches, as it is met by a hook of
autograd's: the passes may be the script's own, through more than that call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

# Told the path of a tensor, how many gradients came to it with this one, and the gradient; gives the one that
# takes its place, None where it stays.
Met = Callable[[str, int, torch.Tensor], torch.Tensor | None]


class _Hook:
    """On one tensor."""

    __torch_unserializable__ = True  # so that torch does not warn where the script saves the tensor

    def __init__(self, path: str, met: Met) -> None:
        self.path, self.met = path, met
        self.count = 0

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor | None:
        self.count += 1
        return self.met(self.path, self.count, gradient)


def watch_gradients(values: Mapping[str, Any], met: Met) -> None:
    """Watch those among the values that record gradients; a tensor that several calls reach is watched
    once."""
    for path, value in values.items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            hooks = (value._backward_hooks or {}).values()
            if not any(isinstance(hook, _Hook) for hook in hooks):
                value.register_hook(_Hook(path, met))
