"""`reuse:FROM@node`: the memory of the dead value FROM is taken for the result of `node`.

Patches `AllocateLine.should_reuse_buffer` (torch/_inductor/codegen/wrapper.py), which has the last word on
each reuse, and `MemoryPlanningState.push`, which gives memory that was not taken back to the pool. Denied,
the result gets memory of its own, and that of FROM leaves the pool and counts as taken: or else the next
result would take it, and other reuses would come and go. Exercised on torch 2.13. A value that changes with
it is a fault of the compiler: something still read the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.codegen import wrapper

from ...core import kinds
from .. import naming
from ..control import current
from . import tags
from .patching import wrap

KIND = kinds.REUSE

_REFUSED = "numbisect_refused"


def install() -> None:
    wrap(wrapper.AllocateLine, "should_reuse_buffer", _ask)
    wrap(wrapper.MemoryPlanningState, "push", _keep_out)


def _ask(original: Callable[..., bool]) -> Callable[..., bool]:
    def should_reuse_buffer(self: Any, free_line: Any, size: int) -> bool:
        reuses = original(self, free_line, size)
        control = current(KIND.name)
        if control is None or not reuses:
            return reuses
        node, dead = tags.source_of_ir(self.node), tags.source_of_ir(free_line.node)
        if node is None or dead is None:
            return reuses
        text = f"{tags.described(node)} is written into the memory of {tags.described(dead)}"
        detail = f"{naming.handle(dead)}{naming.suffix(node)}"
        if control.take(tags.decision(KIND.name, node, text, detail)):
            return True
        setattr(free_line, _REFUSED, True)
        self.wrapper.estimate_peak.update_peak_between(free_line, self)
        return False

    return should_reuse_buffer


def _keep_out(original: Callable[..., None]) -> Callable[..., None]:
    def push(self: Any, key: Any, item: Any) -> None:
        if not getattr(item, _REFUSED, False):
            original(self, key, item)

    return push
