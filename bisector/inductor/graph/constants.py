"""Tensors that a graph carries itself, which a case may cut and simplify as it does inputs.

Dynamo leaves parameters and buffers in the graph where they are to be folded (freezing).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.fx


def constants_of(gm: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors by the name of the node that gets them."""
    found = {n.name: value_of(gm, n) for n in gm.graph.find_nodes(op="get_attr")}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def value_of(gm: torch.fx.GraphModule, node: torch.fx.Node) -> object:
    """What a node that gets an attribute gives."""
    value: object = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def replace_constants(gm: torch.fx.GraphModule, values: Mapping[str, torch.Tensor]) -> None:
    """Give the graph other tensors, by the names of nodes; a parameter stays one."""
    for node in gm.graph.find_nodes(op="get_attr"):
        if node.name in values:
            path, _, name = str(node.target).rpartition(".")
            holder, old = gm.get_submodule(path), value_of(gm, node)
            new = values[node.name]
            if isinstance(old, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
            # Under its own name again, which may be held as a buffer, as a parameter or as a plain attribute.
            delattr(holder, name)
            if isinstance(new, torch.nn.Parameter):
                holder.register_parameter(name, new)
            else:
                holder.register_buffer(name, new)
