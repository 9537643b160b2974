"""Does each hook still bite in this torch? One small program, compiled to source with each kind denied.

Nothing is compiled by a C++ compiler or loaded. A kind passes if denying all its decisions changes the
source; a kind that a torch update broke shows here, at the start, and not as a wrong answer later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch.nn.functional as F

from .. import control, source_capture
from ..control import Control

_NEVER_ASKED = "the self-test's program never came to such a decision"


def run() -> dict[str, str | None]:
    """For each kind None if its hook bites, else the reason why it must be switched off."""
    from . import KINDS  # the package imports the kinds; this module is one more beside them

    off = control.disabled()
    with _settings():
        passive, listing = _source(None), Control()
        base = _source(listing)
        if base != passive:
            return dict.fromkeys(KINDS, "listing the decisions changes the generated source")
        return {kind: off.get(kind) or _reason(kind, listing, base) for kind in KINDS}


def _reason(kind: str, listing: Control, base: str) -> str | None:
    members = [decision.id for decision in listing.decisions() if decision.kind == kind]
    # A scalar loop has no vector operation left to deny, so the two halves of `vec` are tried apart.
    loops = [member for member in members if member.startswith("vec:loop")]
    others = [member for member in members if member not in loops]
    if not others:
        return _NEVER_ASKED
    for denied in filter(None, (others, loops)):
        try:
            source = _source(Control(members=denied))
        except Exception as error:  # noqa: BLE001 - whatever a stale hook raises is the reason to report
            return f"{type(error).__name__}: {error}".splitlines()[0]
        if source == base:
            return "denying it changes nothing"
    return None


def _program(x: torch.Tensor, scale: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = x * scale
    decay = (product.amin(-1, keepdim=True) - product).exp()
    rounded = F.silu(decay).half().float() * x[:, :4].sum(-1, keepdim=True) + x.var(-1, keepdim=True)
    shifted = (rounded.half() + 1.7).float()
    wide = x.repeat(1, 8)  # memory is reused below the peak that this makes
    shifted = torch.mm(torch.mm(torch.mm(torch.mm(shifted, wide), wide.t()), x).tanh(), x)
    return torch.mm(shifted, x) + scale + torch.zeros_like(x), F.conv2d(image, image)


def _source(active: Control | None) -> str:
    torch._dynamo.reset()
    inputs = [torch.ones(32, 32, requires_grad=True), torch.ones(32, 1), torch.ones(2, 2, 4, 4)]
    with nullcontext() if active is None else control.activate(active), torch.enable_grad():
        sources = source_capture.source_only(lambda: torch.compile(_program, dynamic=False)(*inputs))
    torch._dynamo.reset()
    return source_capture.digest(sources)


@contextmanager
def _settings() -> Iterator[None]:
    """Caches off, and contraction on: without it there is no `fma` to deny."""
    with (
        inductor_config.patch(
            {"fx_graph_cache": False, "compile_threads": 1, "cpp.enable_floating_point_contract_flag": "fast"}
        ),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        yield
