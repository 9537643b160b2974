"""`reuse:FROM@node`: the memory of the dead value FROM is taken for the result of `node`.

Patches `AllocateLine.should_reuse_buffer` (torch/_inductor/codegen/wrapper.py), which has the last word on
each reuse; denied, the result gets memory of its own. Exercised on torch 2.13. A value that changes with it
is a fault of the compiler: something still read the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.codegen import wrapper

from .. import naming
from ..control import current
from . import tags
from .patching import wrap


def install() -> None:
    wrap(wrapper.AllocateLine, "should_reuse_buffer", _ask)


def _ask(original: Callable[..., bool]) -> Callable[..., bool]:
    def should_reuse_buffer(self: Any, free_line: Any, size: int) -> bool:
        reuses = original(self, free_line, size)
        control = current("reuse")
        node, dead = tags.source_of_ir(self.node), tags.source_of_ir(free_line.node)
        if control is None or not reuses or node is None or dead is None:
            return reuses
        text = f"{tags.described(node)} is written into the memory of {tags.described(dead)}"
        detail = f"{naming.handle(dead)}{naming.suffix(node)}"
        return control.ask("reuse", detail, naming.node_name(node), text, naming.where_of(node))

    return should_reuse_buffer
