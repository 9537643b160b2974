"""How one kernel of the Triton backend goes over a reduction: in one block, in a loop, in several blocks.

Patches `TritonKernel.should_use_persistent_reduction` and `should_use_cooperative_reduction`
(torch/_inductor/codegen/triton.py), which ask `InductorChoices` for one kernel. Exercised on torch 2.13 up
to machine code, with a pretended device.
- `unroll:persistent@node`: the whole reduction is one block, no loop; denied, a loop over blocks.
- `split:cooperative@node`: several thread blocks reduce parts and combine them in the same kernel; denied,
  one thread block does it all.
Both change the order of the additions. A reduction in two kernels is `split` too, decided in lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.codegen.triton import TritonKernel

from ...core import kinds
from . import tags, triton_ops
from .patching import require, wrap

_TEXTS = {
    "persistent": "the reduction of {} is one block, without a loop",
    "cooperative": "several thread blocks share the reduction of {}",
}

NAME = "reductions on Triton"


def install() -> None:
    tags.install()
    names = {
        "persistent": ("should_use_persistent_reduction", kinds.UNROLL.name),
        "cooperative": ("should_use_cooperative_reduction", kinds.SPLIT.name),
    }
    require(TritonKernel, *(name for name, _ in names.values()))
    for detail, (name, kind) in names.items():
        wrap(TritonKernel, name, _asking(kind, detail))


def _asking(kind: str, detail: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    def make(original: Callable[..., bool]) -> Callable[..., bool]:
        def should_use(self: Any) -> bool:
            wanted = original(self)
            control = triton_ops.control_for(kind, NAME)
            if not wanted or control is None:
                return wanted
            reductions = [leaf for leaf in triton_ops.leaves(self) if leaf.is_reduction()]
            return triton_ops.allowed(control, kind, detail, reductions, _TEXTS[detail])

        return should_use

    return make
