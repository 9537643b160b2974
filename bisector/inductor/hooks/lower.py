"""`lower:OP@node`: one FX node lowered by Inductor; denied, its ATen kernel runs.

Patches the name `fallback_node_due_to_unsupported_type` in torch/_inductor/graph.py, which
`GraphLowering.run_node` asks right before it lowers an op. Exercised on torch 2.13. Nodes that have no
lowering of their own (a fallback either way), or no kernel, are not listed. A fallback also realizes its
inputs and its output, so the kind names a place and stays allowed in the plain baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import graph, lowering
from torch.fx import Node

from ...core import kinds
from .. import naming
from ..control import current
from .patching import require, wrap
from .tags import decision, described

KIND = kinds.LOWER


def install() -> None:
    require(lowering, "fallbacks")
    wrap(graph, "fallback_node_due_to_unsupported_type", _ask)


def _has_both(node: Node) -> bool:
    """Whether the op has a lowering and a kernel: Inductor's own prims (`inductor_random`) have no kernel."""
    own = naming.op_name(node).startswith("prims.inductor_")
    return not own and node.target not in lowering.fallbacks


def _ask(original: Callable[..., bool]) -> Callable[..., bool]:
    def must_fall_back(node: Node, *args: Any, **kwargs: Any) -> bool:
        if original(node, *args, **kwargs):
            return True
        control = current(KIND.name)
        if control is None or not _has_both(node):
            return False
        return not control.take(decision(KIND.name, node, f"Inductor's own code for {described(node)}"))

    return must_fall_back
