"""`inline:OP@node`: a value recomputed wherever it is used; denied, it is computed once into a buffer.

Patches `GraphLowering.run_node` (torch/_inductor/graph.py): a result that is still an unrealized
Pointwise or Reduction there will be inlined into its users. Exercised on torch 2.13. Listed once, for the
node whose lowering made the value (not for views of it), and only if a node other than the output uses it.
Denied, the buffer can still live in a register if producer and user are fused (see `fuse`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir
from torch._inductor.graph import GraphLowering
from torch.fx import Node

from ...core import kinds
from .. import naming
from ..control import Control, current
from . import tags
from .patching import wrap

KIND = kinds.INLINE

# Constants: recomputing one gives the same bits as loading it.
_CONSTANTS = frozenset({"aten.full", "aten.scalar_tensor", "aten.empty", "prims.iota"})


def install() -> None:
    tags.install()
    wrap(GraphLowering, "run", _mark_backward)
    wrap(GraphLowering, "run_node", _ask)


def _mark_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: GraphLowering, *args: Any) -> Any:
        if current() is not None and self.is_backward:
            naming.mark_backward(self.graph)
        return original(self, *args)

    return run


def inlined_here(node: Node, result: Any) -> ir.StorageBox | None:
    """The value that `node` made, if its users will recompute it."""
    box = tags.storage_of(result)
    if box is None or not isinstance(box.data, (ir.Pointwise, ir.Reduction)):
        return None
    used = any(user.op != "output" for user in node.users)
    return box if used and tags.source_of_ir(box) is node else None


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(self: GraphLowering, node: Node) -> Any:
        result = original(self, node)
        control = current(KIND.name)
        if control is not None and node.op == "call_function" and naming.op_name(node) not in _CONSTANTS:
            box = inlined_here(node, result)
            if box is not None and not _allowed(control, node):
                box.realize()
        return result

    return run_node


def _allowed(control: Control, node: Node) -> bool:
    text = f"the result of {tags.described(node)} is recomputed in each kernel that uses it"
    return control.take(tags.decision(KIND.name, node, text))
