"""Do the hooks of the Triton backend bite in this torch? As `selftest`, on a device that has Triton code.

Asked where a subject is on CUDA. The code is generated, not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from .. import compilation, control, source_capture
from ..control import Control
from . import triton_cast, triton_fma, triton_math, triton_reduce
from .selftest import CHANGED, NEVER_ASKED, why_ineffective

# Part -> how the IDs of its decisions begin.
_PARTS = {
    triton_fma.NAME: "fma:",
    triton_math.NAME: "vec:",
    triton_cast.NAME: "cast:",
    triton_reduce.NAME: "unroll:persistent",
}
Inputs = Sequence[torch.Tensor]


def run(make_inputs: Callable[[], Inputs] = lambda: _inputs()) -> dict[str, str | None]:
    """For each part None if its hook bites, else the reason why it must be switched off."""
    off = control.disabled()
    with compilation.probe_caches(1):
        inputs, listing = make_inputs(), Control()
        base = _source(listing, inputs)
        if base != _source(None, inputs):
            return dict.fromkeys(_PARTS, CHANGED)
        parts = _PARTS.items()
        return {part: off.get(part) or _reason(listing, start, base, inputs) for part, start in parts}


def _inputs() -> Inputs:
    return [torch.ones(32, 64, device="cuda"), torch.ones(32, 64, device="cuda")]


def _program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    decay = ((x * y).amax(-1, keepdim=True) - x * y).exp()
    half = (x / y).half()
    return decay.sum(-1), half, half.float() * 3


def _reason(listing: Control, start: str, base: str, inputs: Inputs) -> str | None:
    members = [decision.id for decision in listing.decisions() if decision.id.startswith(start)]
    if not members:
        return NEVER_ASKED
    return why_ineffective(members, base, lambda denied: _source(denied, inputs))


def _source(active: Control | None, inputs: Inputs) -> str:
    torch._dynamo.reset()
    with nullcontext() if active is None else control.activate(active), torch.no_grad():
        sources = source_capture.source_only(lambda: torch.compile(_program, dynamic=False)(*inputs))
    torch._dynamo.reset()
    return source_capture.digest(sources)
