"""`layout:channels_last@node`: a 2-d convolution runs in channels-last memory order.

Patches `GraphLowering.run_node` (torch/_inductor/graph.py). The lowering of a convolution reads
`V.graph.layout_opt` and the set `nodes_prefer_channels_last` (torch/_inductor/kernel/conv.py); denied, both
say no for that node alone, and its inputs get the strides that they have in eager. Exercised on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._inductor.graph import GraphLowering
from torch.fx import Node

from ...core import kinds
from .. import naming
from ..control import current
from . import tags
from .patching import require, wrap

KIND = kinds.LAYOUT

_CONVOLUTIONS = frozenset({"aten.convolution", "aten.convolution_backward"})


def install() -> None:
    require(GraphLowering, "decide_layout_opt", "find_nodes_prefer_channels_last")
    wrap(GraphLowering, "run_node", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(self: GraphLowering, node: Node) -> Any:
        control = current(KIND.name)
        if control is None or not _prefers_channels_last(self, node):
            return original(self, node)
        text = f"{tags.described(node)} runs in channels-last order"
        detail = f"channels_last{naming.suffix(node)}"
        if control.take(tags.decision(KIND.name, node, text, detail)):
            return original(self, node)
        with _as_in_eager(self, node):
            return original(self, node)

    return run_node


def _prefers_channels_last(graph: GraphLowering, node: Node) -> bool:
    value = naming.value_of(node)
    if not graph.layout_opt or node.op != "call_function" or naming.op_name(node) not in _CONVOLUTIONS:
        return False
    return value is None or value.dim() == 4


@contextmanager
def _as_in_eager(graph: GraphLowering, node: Node) -> Iterator[None]:
    preferred = node in graph.nodes_prefer_channels_last
    graph.layout_opt = False
    graph.nodes_prefer_channels_last.discard(node)
    try:
        yield
    finally:
        graph.layout_opt = True
        if preferred:
            graph.nodes_prefer_channels_last.add(node)
