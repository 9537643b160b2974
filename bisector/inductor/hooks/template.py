"""`template:OP@node`: a matmul or convolution generated from a kernel template, not run by a library.

Patches `GraphLowering.run_node` (torch/_inductor/graph.py). With `max_autotune` the lowering of such a node
offers templates in addition to the library's kernel and keeps the fastest; a template that was kept is a
`TemplateBuffer` (torch/_inductor/ir.py). Denied, the node is lowered with `max_autotune` off, which leaves
the library's kernel. Exercised on torch 2.13. Which one is fastest can change from compile to compile; a
template that is not kept is no decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import config, ir
from torch._inductor.graph import GraphLowering
from torch._ops import HigherOrderOperator
from torch.fx import Node

from ...core import kinds
from ..control import current
from . import tags
from .patching import require, wrap

KIND = kinds.TEMPLATE

_TUNING = ("max_autotune", "max_autotune_gemm")


def install() -> None:
    require(config, *_TUNING)
    require(ir, "TemplateBuffer")
    wrap(GraphLowering, "run_node", _ask)


def tuning() -> bool:
    """Whether the settings offer templates at all."""
    return any(getattr(config, name) for name in _TUNING)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(self: GraphLowering, node: Node) -> Any:
        control = current(KIND.name)
        # A higher-order op (flex_attention) has no other kernel than its template.
        if control is None or not tuning() or isinstance(node.target, HigherOrderOperator):
            return original(self, node)
        text = f"{tags.described(node)} is generated from a kernel template"
        decision = tags.decision(KIND.name, node, text)
        if control.refuses(decision):
            with config.patch(dict.fromkeys(_TUNING, False)):
                return original(self, node)
        before = len(self.operations)
        result = original(self, node)
        if any(isinstance(made, ir.TemplateBuffer) for made in self.operations[before:]):
            control.take(decision)
        return result

    return run_node
