"""`cast` where the backend is Triton: a float16 or bfloat16 buffer that is stored and used in one kernel.

Patches `CSEProxy.load` (torch/_inductor/codegen/common.py), which hands the user the register that was
stored, still in float32. Exercised on torch 2.13 up to the generated source, with a pretended device.
Denied, the user gets the register rounded to the buffer's dtype and back. A value that is inlined is
`cast`'s own affair: its two casts are in the loop body, and Triton writes both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.codegen import common
from torch._inductor.virtualized import V

from ...core import kinds
from . import cast, tags, triton_ops
from .patching import require, wrap

_TRITON_NAMES = {torch.float16: "tl.float16", torch.bfloat16: "tl.bfloat16"}

NAME = "cast on Triton"


def install() -> None:
    tags.install()
    require(common.CSEProxy, "load")
    wrap(common.CSEProxy, "load", _round_forwarded)


def _round_forwarded(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, name: str, index: Any) -> Any:
        control = triton_ops.control_for(kinds.CAST.name, NAME)
        if control is None or not triton_ops.is_triton(V.kernel):
            return original(self, name, index)
        forwarded = name in self.kernel.cse.store_cache
        value = original(self, name, index)
        node = tags.source_of_buffer(name) if forwarded else None
        dtype = V.graph.get_dtype(name)
        if node is None or dtype not in _TRITON_NAMES or value.dtype != torch.float32:
            return value
        if cast.allowed(control, node, dtype):
            return value
        code = f"{value}.to({_TRITON_NAMES[dtype]}).to(tl.float32)"
        kernel = V.kernel
        return kernel.cse.generate(kernel.compute, code, dtype=torch.float32, shape=value.shape)

    return load
