"""Which nodes of a graph matter: what the outputs depend on, writes and mode changes included."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Container
from types import FunctionType
from typing import Any, TypeGuard

import torch
import torch.fx
from torch.fx.node import map_arg


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


def written(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes whose memory the call writes into: those that its parameters or `out=` name, else its first
    argument."""
    positions, names = _written_parameters(node.target)
    named: list[torch.fx.Node] = []
    given = [node.args[i] for i in positions if i < len(node.args)]
    map_arg([*given, *(node.kwargs.get(name) for name in ("out", *names))], named.append)
    return named or (node.all_input_nodes[:1] if mutates(node) else [])


@functools.cache
def _written_parameters(target: Any) -> tuple[list[int], list[str]]:
    """Positions and names of the parameters that the schema marks as written, and of running statistics: a
    normalization updates these, and neither its name nor its schema says so."""
    names: list[str] = []
    marked = {"running_mean", "running_var"}
    if isinstance(target, torch._ops.OpOverload):
        parameters = target._schema.arguments
        names = [p.name for p in parameters]
        marked |= {p.name for p in parameters if p.alias_info is not None and p.alias_info.is_write}
    elif isinstance(target, FunctionType):
        names = list(inspect.signature(target).parameters)
    positions = [i for i, name in enumerate(names) if name in marked]
    return positions, [names[i] for i in positions]


def needed(gm: torch.fx.GraphModule, into: Container[str] = ()) -> set[torch.fx.Node]:
    """The nodes that the outputs depend on, in-place writes into any of them included, and into the inputs
    of these names."""
    keep = {n for n in gm.graph.nodes if n.op == "placeholder" and n.name in into}
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
            return {n for n in keep if n.op != "placeholder" or any(u in keep for u in n.users)}


def _acts(node: torch.fx.Node, keep: set[torch.fx.Node]) -> bool:
    if mutates(node) or _sets_mode(node):
        targets = written(node) or node.all_input_nodes[:1]
        return not targets or any(target in keep for target in targets)
    if any(target in keep for target in written(node)):
        return True
    # A view of something kept that is itself written into (x[0].add_(1)).
    return any(i in keep and _is_view(node, i) for i in node.all_input_nodes[:1]) and _is_written(node)


def _is_written(node: torch.fx.Node) -> bool:
    """Whether a later call writes into it, or into a view of it."""
    views = [node]
    for view in views:  # each once: views of views can meet again
        if any(view in written(user) for user in view.users):
            return True
        views += [user for user in view.users if user not in views and _is_view(user, view)]
    return False


def _is_view(node: torch.fx.Node, of: torch.fx.Node) -> bool:
    """Whether both had one memory when Dynamo captured them; True where that is not known."""
    values = [n.meta.get("example_value") for n in (node, of)]
    memory = {v.untyped_storage()._cdata for v in values if _has_memory(v)}
    return len(memory) == 1 or not all(map(_has_memory, values))


def _has_memory(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _sets_mode(node: torch.fx.Node) -> bool:
    """Entering or leaving autocast and grad mode: no value, but it governs the nodes after it."""
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and name in (
        "_enter_autocast",
        "_exit_autocast",
        "_set_grad_enabled",
        "set_grad_enabled",
    )
