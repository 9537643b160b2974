"""A captured graph that returns its intermediate values as well, and which of them it can return."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.node import map_arg

from .. import tensors, torch_state
from ..execute import Subject
from ..graph import liveness

MOST_BYTES = 1 << 30  # of intermediate values; two programs' are held side by side


class NotTraced(Exception):
    """The graph cannot be followed node by node; the message says why."""


class Values(torch.fx.Interpreter):
    """Runs a graph in eager and notes of each call whether its result has memory of its own."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.own: set[torch.fx.Node] = set()
        self.bytes = 0
        self.makers: set[torch.fx.Node] = set()  # of tuples of tensors of their own

    def run_node(self, n: torch.fx.Node) -> Any:
        storages = {_storage(v) for v in pytree.tree_leaves([self.env[i] for i in n.all_input_nodes])}
        result = super().run_node(n)
        if n.op.startswith("call"):
            fresh = [v for v in pytree.tree_leaves(result) if _storage(v) not in {None, *storages}]
            self.bytes += tensors.nbytes(fresh)
            if isinstance(result, torch.Tensor) and (fresh or self._is_part(n)):
                self.own.add(n)
            elif fresh:
                self.makers.add(n)
        return result

    def _is_part(self, n: torch.fx.Node) -> bool:
        return n.target is operator.getitem and n.args[0] in self.makers


def _storage(value: Any) -> int | None:
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return value.untyped_storage().data_ptr() or None
    return None


def outputs(subject: Subject, fn: Callable[..., Any]) -> list[Any]:
    """The outputs of one run from the recorded state of the generators, without gradients."""
    torch_state.restore_rng(subject.call.state)
    result = fn(*tensors.fresh(subject.edited.args, subject.edited.requires_grad))
    return [v.detach() if isinstance(v, torch.Tensor) else v for v in tensors.as_list(result)]


@dataclass
class Tapped:
    """names: the nodes whose values the graph returns after its own outputs, in that order."""

    subject: Subject
    names: list[str]
    own_outputs: int


def tapped(subject: Subject, values: Values, left_out: Collection[str]) -> Tapped:
    """The subject with a graph that returns every intermediate tensor but those of the nodes `left_out`.

    Not returned either: views, which are exact, and values that a later node writes into.
    Raises NotTraced where a write reaches values under another name, or the values are too large.
    """
    if values.bytes > MOST_BYTES:
        raise NotTraced(f"its intermediate values take {values.bytes >> 20} MiB")
    old = subject.edited.gm
    written = {n.name for n in _written(old, values.own)}
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in old.graph.nodes:
        if node.op != "output":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    flat = tensors.as_list(old.graph.output_node().args[0])
    needed = liveness.needed(old)
    owners = values.own | {n for n in needed if liveness.mutates(n)}
    names = [
        n.name
        for n in old.graph.nodes
        if n in owners and n in needed and n not in flat and n.name not in written and n.name not in left_out
    ]
    taps = [n for n in old.graph.nodes if n.name in set(names)]
    graph.output(map_arg((*flat, *taps), lambda n: copies[n]))
    gm = torch.fx.GraphModule(old, graph)
    gm.meta = dict(old.meta)
    edited = replace(subject.edited, gm=gm)
    return Tapped(replace(subject, edited=edited), names, len(flat))


def _written(gm: torch.fx.GraphModule, own: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """The values that later nodes write into, where each is the program's own and nobody reads it after."""
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    found: list[torch.fx.Node] = []
    held = set(own)
    for node in gm.graph.nodes:
        if not liveness.mutates(node):
            continue
        target = node.args[0] if node.args else None
        safe = isinstance(target, torch.fx.Node) and target in held
        if not safe or not isinstance(target, torch.fx.Node) or "out" in node.kwargs:
            raise NotTraced(f"`{node.name}` writes into an input or a part of another value")
        others = [u for u in target.users if u is not node]
        if any(order[u] > order[node] or u not in held for u in others):
            raise NotTraced(f"`{node.name}` writes into a value that is read under another name")
        found.append(target)
        held.add(node)
    return found
