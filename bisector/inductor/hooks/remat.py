"""`remat:OP@node`: a forward value that the backward graph computes again; denied, it is saved.

Patches `min_cut_rematerialization_partition` as torch/_inductor/compile_fx.py names it. What it recomputes is
known from a partition of a copy of the joint graph: nodes of the forward graph that stand in the backward
graph too. A denied node carries `CheckpointPolicy.MUST_SAVE` in its meta, which the partitioner obeys, and
the partition is made again, since another cut can recompute other nodes. Exercised on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import compile_fx
from torch.fx import Graph, GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from ...core import kinds
from .. import naming
from ..control import Control, current
from . import tags
from .patching import wrap

KIND = kinds.REMAT

# A cut that avoids the denied nodes rarely finds others to recompute; after this many rounds it stays.
ROUNDS = 4


def install() -> None:
    wrap(compile_fx, "min_cut_rematerialization_partition", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def partition(joint: GraphModule, *args: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule]:
        control = current(KIND.name)
        if control is None:
            return original(joint, *args, **kwargs)
        for _ in range(ROUNDS):
            recomputed = _recomputed(joint, *original(_copied(joint), *args, **kwargs))
            denied = [node for node in recomputed if not _allowed(control, node)]
            if not denied:
                break
            for node in denied:
                node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return original(joint, *args, **kwargs)

    return partition


def _copied(joint: GraphModule) -> GraphModule:
    """A copy whose nodes share their meta's values but not the dictionaries."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    graph.output(graph.graph_copy(joint.graph, copies))
    for old, new in copies.items():
        new.meta = dict(old.meta)
    graph.output_node().meta = dict(joint.graph.output_node().meta)
    return GraphModule(joint, graph)


def _recomputed(joint: GraphModule, forward: GraphModule, backward: GraphModule) -> list[Node]:
    """The joint graph's nodes that both halves compute, in order."""
    halves = [{n.name for n in half.graph.nodes if n.op == "call_function"} for half in (forward, backward)]
    shared = halves[0] & halves[1]
    return [n for n in joint.graph.nodes if n.name in shared and naming.value_of(n) is not None]


def _allowed(control: Control, node: Node) -> bool:
    text = f"the backward graph computes {tags.described(node)} again"
    return control.take(tags.decision(KIND.name, node, text))
