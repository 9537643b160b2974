"""Apply a Case to a captured graph: the smaller graph and its inputs, in eager's own values.

Node names stay. A node that is cut becomes an input of the same name that holds the value eager gives
it, so the first divergence inside what is left is a divergence on equal inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource

from ...core.case import Case
from .. import tensors
from ..dispatched_ops import is_silent
from . import arguments, liveness
from . import smaller_inputs as inputs_of
from .smaller_inputs import constants_of, replace_constants


class CannotEdit(Exception):
    """The case does not make a graph (an edit names what is gone, or shapes no longer fit)."""


@dataclass
class Edited:
    """A graph and its inputs, leaves that require gradients where `requires_grad` says so."""

    gm: torch.fx.GraphModule
    args: list[Any]
    requires_grad: list[bool]
    outputs_kept: bool  # whether the captured outputs are still returned, in their order

    def input_names(self) -> list[str]:
        return _input_names(self.gm)

    def output_names(self) -> list[str | None]:
        """The nodes that are returned; None for what is no node."""
        returned = tensors.as_list(self.gm.graph.output_node().args[0])
        return [n.name if isinstance(n, torch.fx.Node) else None for n in returned]


def apply(
    gm: torch.fx.GraphModule,
    args: Sequence[Any],
    requires_grad: Sequence[bool],
    case: Case,
    before_eager: Callable[[], None],
) -> Edited:
    """The graph after the edits. `before_eager` puts the random generators back before eager runs."""
    kept = not case.outputs
    if case.base is not None:
        base = apply(gm, args, requires_grad, case.base, before_eager)
        gm, args, requires_grad, kept = base.gm, base.args, base.requires_grad, kept and base.outputs_kept
    if case.unfuse:
        gm = _unfused(gm, tensors.fresh(args, requires_grad), case.unfuse, before_eager)
    values = _eager_values(gm, tensors.fresh(args, requires_grad), set(case.cut), before_eager)
    into = set() if case.outputs else set(_input_names(gm))
    new_gm = _edited_graph(gm, case, into)
    _resize(new_gm, dict(case.sizes))
    held = dict(zip(_input_names(gm), zip(args, requires_grad, strict=True), strict=True)) | values
    if case.arguments:
        _put_arguments(new_gm, case, {name: value for name, (value, _) in held.items()})
        _drop_dead(new_gm, into)
    inputs = [(n.name, *held[n.name]) for n in new_gm.graph.nodes if n.op == "placeholder"]
    new_gm.graph.lint()
    new_gm.recompile()
    new_args = _simplified({name: value for name, value, _ in inputs}, case)
    replace_constants(new_gm, _simplified(constants_of(new_gm), case))
    return Edited(new_gm, list(new_args.values()), [flag for _, _, flag in inputs], kept)


def _input_names(gm: torch.fx.GraphModule) -> list[str]:
    return [n.name for n in gm.graph.nodes if n.op == "placeholder"]


def _edited_graph(gm: torch.fx.GraphModule, case: Case, into: set[str]) -> torch.fx.GraphModule:
    """A new graph of what the edited outputs need; copied in order, so that every node keeps its name."""
    names = {n.name: n for n in gm.graph.nodes}
    bypassed = dict(case.bypass)
    missing = [n for n in (*case.cut, *case.outputs, *bypassed, *bypassed.values()) if n not in names]
    if missing:
        raise CannotEdit(f"no node named {missing[0]}")
    copies = _Copies(torch.fx.Graph(), set(case.cut))
    for name in case.cut:
        copies.add_input(names[name])
    for node in gm.graph.nodes:
        if node.name in bypassed:
            copies.of[node] = copies.of[names[bypassed[node.name]]]
        elif node.name not in case.cut and node.op != "output":
            copies.add(node)
    if case.outputs:
        copies.graph.output(tuple(copies.of[names[name]] for name in case.outputs))
    else:
        copies.graph.output(map_arg(gm.graph.output_node().args[0], lambda n: copies.of[n]))
    edited = torch.fx.GraphModule(gm, copies.graph)
    edited.meta = dict(gm.meta)
    _drop_dead(edited, into)
    return edited


class _Copies:
    """A graph under construction, and the copy of each node of the old one."""

    def __init__(self, graph: torch.fx.Graph, cut: set[str]) -> None:
        self.graph = graph
        self.cut = cut
        self.of: dict[torch.fx.Node, torch.fx.Node] = {}

    def add_input(self, node: torch.fx.Node) -> None:
        new = self._named(self.graph.placeholder(node.name), node)
        new.meta = {k: v for k, v in node.meta.items() if k in ("stack_trace", "from_node")}

    def add(self, node: torch.fx.Node) -> None:
        self._named(self.graph.node_copy(node, lambda n: self.of[n]), node)

    def _named(self, new: torch.fx.Node, old: torch.fx.Node) -> torch.fx.Node:
        if new.name != old.name:
            raise CannotEdit(f"{old.name} would be called {new.name}")
        self.of[old] = new
        return new


def _eager_values(
    gm: torch.fx.GraphModule, args: list[Any], wanted: set[str], before_eager: Callable[[], None]
) -> dict[str, tuple[Any, bool]]:
    """(value, requires_grad) of the wanted nodes as eager computes them, up to the last one wanted."""
    found: dict[str, tuple[Any, bool]] = {}
    if not wanted:
        return found

    class Enough(Exception):
        pass

    class Tap(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if n.name in wanted:
                if not isinstance(result, torch.Tensor):
                    raise CannotEdit(f"{n.name} is not a tensor and cannot become an input")
                found[n.name] = (tensors.snapshot([result])[0], result.requires_grad)
                if len(found) == len(wanted):
                    raise Enough
            return result

    before_eager()
    try:
        Tap(gm).run(*args)
    except Enough:
        return found
    raise CannotEdit(f"eager never reached {sorted(wanted - set(found))}")


def _resize(gm: torch.fx.GraphModule, sizes: dict[int, int]) -> None:
    if not sizes:
        return

    def swap(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(swap(v) for v in value)
        return sizes.get(value, value) if type(value) is int else value

    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method"):
            node.args = tuple(swap(a) if not isinstance(a, torch.fx.Node) else a for a in node.args)
            node.kwargs = {
                k: swap(v) if not isinstance(v, torch.fx.Node) else v for k, v in node.kwargs.items()
            }


def _put_arguments(gm: torch.fx.GraphModule, case: Case, held: Mapping[str, Any]) -> None:
    try:
        arguments.put(gm, case.arguments, held)
    except arguments.NoSuchArgument as error:
        raise CannotEdit(str(error)) from error


def _drop_dead(gm: torch.fx.GraphModule, into: set[str]) -> None:
    keep = liveness.needed(gm, into)
    for node in reversed(list(gm.graph.nodes)):
        if node not in keep:
            gm.graph.erase_node(node)


def _simplified(inputs: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """The values after the slices, simplifications and scales that name them.

    What is named and is not there went with an edit that came after.
    """
    values = dict(inputs)
    slices = [part for part in case.slices if part.input in values]
    for part in slices:
        value, end = values[part.input], part.start + (part.length - 1) * part.step + 1
        if part.dim >= value.dim() or end > value.shape[part.dim]:
            raise CannotEdit(f"no such part of {part.input}")
        kept = slice(part.start, end, part.step)
        values[part.input] = value[(slice(None),) * part.dim + (kept,)]
    values |= {name: inputs_of.compact(values[name]) for name in {part.input for part in slices}}
    values |= {name: inputs_of.contiguous(values[name]) for name in case.contiguous if name in values}
    if case.dtype is not None:
        values = {name: inputs_of.cast(value, getattr(torch, case.dtype)) for name, value in values.items()}
    values |= {name: inputs_of.simplify(values[name], how) for name, how in case.values if name in values}
    for name, factor in case.scales:  # of one input there can be several
        if name in values:
            values[name] = inputs_of.scale(values[name], factor)
    return values


def node_arguments(node: torch.fx.Node) -> list[str]:
    """Names of the nodes this one reads, in order, each once."""
    found: list[str] = []
    map_arg((node.args, node.kwargs), lambda n: found.append(n.name) if n.name not in found else None)
    return found


def _unfused(
    gm: torch.fx.GraphModule, args: Sequence[Any], names: Sequence[str], before_eager: Callable[[], None]
) -> torch.fx.GraphModule:
    """The graph with the named composites decomposed: in place of one call the ATen calls that eager makes of
    it, the same kernels on the same values. What is one ATen call (a layer norm, a softmax) stays as it is:
    its decomposition would round otherwise in eager.

    The part that gives the result has the call's name, the others `NAME__OP`; all count as that call where
    decisions are named. Sizes among their arguments are those of these inputs.
    """
    before_eager()
    tracing = _Tracing(gm, frozenset(names))
    tracing.run(*args)
    if missing := sorted(set(names) - {node.name for node in tracing.parts}):
        raise CannotEdit(f"no call named {missing[0]}")
    graph, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in gm.graph.nodes:
        if node in tracing.parts:
            _insert(graph, copies, node, tracing.parts[node])
        elif node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    if renamed := [node.name for node, copy in copies.items() if copy.name != node.name]:
        raise CannotEdit(f"{renamed[0]} would be called otherwise")
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
            raise CannotEdit(f"{node.name} reads what is no tensor")

        def call(*given: torch.Tensor) -> Any:
            env = dict(zip(node.all_input_nodes, given, strict=True))
            args: Any = map_arg(node.args, env.__getitem__)
            kwargs: Any = map_arg(node.kwargs, env.__getitem__)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]

        graph: torch.fx.Graph = make_fx(call)(*values).graph
        if any(part.op == "get_attr" for part in graph.nodes):
            raise CannotEdit(f"{node.name} holds a constant of its own")
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
        raise CannotEdit(f"the results of {node.name} are read together")
    pairs = [(returned[user.args[1]], user) for user in picks] or [(returned, node)]
    found = {_behind_silent(part): reader for part, reader in pairs if isinstance(part, torch.fx.Node)}
    if len(found) < len(pairs) or any(part.op != "call_function" for part in found):
        raise CannotEdit(f"a result of {node.name} is no call of its own")
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
