"""`inplace:OP@node`: a kernel writes the result of `node` over an input that nothing reads afterwards.

Patches `BaseSchedulerNode.decide_inplace_update` (torch/_inductor/scheduler.py), which fills the running
kernel's `inplace_buffers`; denied, it is not called and the kernel writes elsewhere. Exercised on torch 2.13.
A value that changes with it is a fault of the compiler: something still read the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V

from ...core import kinds
from ..control import current
from . import tags
from .patching import wrap

KIND = kinds.INPLACE


def install() -> None:
    tags.install()
    wrap(BaseSchedulerNode, "decide_inplace_update", _ask)


def _ask(original: Callable[..., None]) -> Callable[..., None]:
    def decide_inplace_update(self: BaseSchedulerNode) -> None:
        control = current(KIND.name)
        node = tags.source_of_leaf(self) if control is not None and len(self.get_nodes()) == 1 else None
        if control is None or node is None:
            return original(self)
        text = f"the result of {tags.described(node)} is written over one of its inputs"
        decision = tags.decision(KIND.name, node, text)
        if control.refuses(decision):
            return None
        before = _inplace()
        original(self)
        if _inplace() != before:
            control.take(decision)
        return None

    return decide_inplace_update


def _inplace() -> dict[str, Any]:
    return dict(getattr(getattr(V.kernel, "args", None), "inplace_buffers", {}))
