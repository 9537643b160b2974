"""A composite decomposed: in place of one call the ATen calls that eager makes of it.

Only calls that eager itself decomposes are replaced: the same kernels run on the same values. A call
that is one ATen call (a layer norm, a softmax) stays as it is: its decomposition would round otherwise in
eager.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource

from ..dispatched_ops import is_silent


class CannotUnfuse(Exception):
    """The call cannot be replaced by its parts."""


def unfused(
    gm: torch.fx.GraphModule, args: Sequence[Any], names: Sequence[str], before_eager: Callable[[], None]
) -> torch.fx.GraphModule:
    """The graph with the named calls decomposed.

    The part that gives the result has the call's name, the others `NAME__OP`; all count as that call where
    decisions are named. Sizes among their arguments are those of these inputs. Raises CannotUnfuse.
    """
    before_eager()
    tracing = _Tracing(gm, frozenset(names))
    tracing.run(*args)
    if missing := sorted(set(names) - {node.name for node in tracing.parts}):
        raise CannotUnfuse(f"no call named {missing[0]}")
    graph, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in gm.graph.nodes:
        if node in tracing.parts:
            _insert(graph, copies, node, tracing.parts[node])
        elif node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    if renamed := [node.name for node, copy in copies.items() if copy.name != node.name]:
        raise CannotUnfuse(f"{renamed[0]} would be called otherwise")
    decomposed = torch.fx.GraphModule(gm, graph)
    decomposed.meta = dict(gm.meta)
    return decomposed


class _Tracing(torch.fx.Interpreter):
    """Runs a graph and notes the calls that the wanted nodes make. parts: a graph for each of them."""

    def __init__(self, gm: torch.fx.GraphModule, wanted: frozenset[str]) -> None:
        super().__init__(gm)
        self.wanted = wanted
        self.parts: dict[torch.fx.Node, torch.fx.Graph] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.name in self.wanted and n.op in ("call_function", "call_method"):
            self.parts[n] = self._traced(n)
        return super().run_node(n)

    def _traced(self, node: torch.fx.Node) -> torch.fx.Graph:
        values = [self.env[read] for read in node.all_input_nodes]
        if not all(isinstance(value, torch.Tensor) for value in values):
            raise CannotUnfuse(f"{node.name} reads what is no tensor")

        def call(*given: torch.Tensor) -> Any:
            env = dict(zip(node.all_input_nodes, given, strict=True))
            args: Any = map_arg(node.args, env.__getitem__)
            kwargs: Any = map_arg(node.kwargs, env.__getitem__)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]

        graph: torch.fx.Graph = make_fx(call)(*values).graph
        if any(part.op == "get_attr" for part in graph.nodes):
            raise CannotUnfuse(f"{node.name} holds a constant of its own")
        return graph


def _insert(
    graph: torch.fx.Graph,
    copies: dict[torch.fx.Node, torch.fx.Node],
    node: torch.fx.Node,
    parts: torch.fx.Graph,
) -> None:
    """Put the parts of a node into the graph; who reads the node then reads its part."""
    results = _results(node, parts)
    given = [copies[read] for read in node.all_input_nodes]
    of_part = dict(zip(parts.find_nodes(op="placeholder"), given, strict=True))
    for part in parts.nodes:
        if part.op != "call_function":
            continue
        if is_silent(part.target):
            of_part[part] = of_part[part.args[0]]
            continue
        stands_for = results.get(part)
        name = stands_for.name if stands_for is not None else f"{node.name}__{_short(part)}"
        args: Any = map_arg(part.args, of_part.__getitem__)
        kwargs: Any = map_arg(part.kwargs, of_part.__getitem__)
        of_part[part] = graph.create_node("call_function", part.target, args, kwargs, name)
        of_part[part].meta = _meta(node)
        if stands_for is not None:
            copies[stands_for] = of_part[part]


def _results(node: torch.fx.Node, parts: torch.fx.Graph) -> Mapping[torch.fx.Node, torch.fx.Node]:
    """The node of the graph that each part stands for: the call itself, or what picks from its results."""
    returned: Any = parts.output_node().args[0]
    picks = list(node.users) if isinstance(returned, (tuple, list)) else []
    if any(user.target is not operator.getitem for user in picks):
        raise CannotUnfuse(f"the results of {node.name} are read together")
    pairs = [(returned[user.args[1]], user) for user in picks] or [(returned, node)]
    found = {_behind_silent(part): reader for part, reader in pairs if isinstance(part, torch.fx.Node)}
    if len(found) < len(pairs) or any(part.op != "call_function" for part in found):
        raise CannotUnfuse(f"a result of {node.name} is no call of its own")
    return found


def _behind_silent(part: torch.fx.Node) -> torch.fx.Node:
    while part.op == "call_function" and is_silent(part.target):
        [part] = part.all_input_nodes
    return part


def _short(part: torch.fx.Node) -> str:
    packet: Any = part.target
    return str(packet.overloadpacket.__name__).strip("_") if hasattr(packet, "overloadpacket") else "item"


def _meta(node: torch.fx.Node) -> dict[str, Any]:
    """What names a decision by the call that was decomposed (see `naming.root_of`)."""
    kept = {k: v for k, v in node.meta.items() if k in ("stack_trace", "source_fn_stack", "nn_module_stack")}
    return {**kept, "from_node": [NodeSource(node)]}
