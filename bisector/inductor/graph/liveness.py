"""Which nodes of a graph matter: what the outputs depend on, writes and mode changes included."""

from __future__ import annotations

import operator

import torch
import torch.fx


def mutates(node: torch.fx.Node) -> bool:
    """Whether the node writes into its first argument (Python's convention, or an out= argument)."""
    if node.op == "call_method":
        name = str(node.target)
        return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    name = getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or node.target in _IN_PLACE or "out" in node.kwargs or bool(node.kwargs.get("inplace"))


_IN_PLACE = {
    operator.setitem,
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.imatmul,
}


def needed(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes that the outputs depend on, in-place writes into any of them included."""
    keep: set[torch.fx.Node] = set()
    work = [gm.graph.output_node()]
    while True:
        while work:
            node = work.pop()
            if node not in keep:
                keep.add(node)
                work.extend(node.all_input_nodes)
        # A write counts if what it writes into is read by something that is kept.
        work = [n for n in gm.graph.nodes if n not in keep and _acts(n, keep)]
        if not work:
            return keep


def _acts(node: torch.fx.Node, keep: set[torch.fx.Node]) -> bool:
    if mutates(node) or _sets_mode(node):
        return not node.all_input_nodes or any(i in keep for i in node.all_input_nodes[:1])
    # A view of something kept that is itself written into (x[0].add_(1)).
    return any(mutates(u) for u in node.users) and any(i in keep for i in node.all_input_nodes[:1])


def _sets_mode(node: torch.fx.Node) -> bool:
    """Entering or leaving autocast and grad mode: no value, but it governs the nodes after it."""
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and name in (
        "_enter_autocast",
        "_exit_autocast",
        "_set_grad_enabled",
        "set_grad_enabled",
    )
