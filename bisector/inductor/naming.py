"""Names of FX nodes that stay the same from compile to compile.

Names of the post-AOT graph (`mul_3`) are counted, so they shift when a decomposition or a match is denied.
The Dynamo name at the root of `from_node` does not (torch/fx/traceback.py, NodeSource). Within one Dynamo
node, nodes of one op are distinguished by their order when the graph is first seen; that number then travels
in `node.meta`, so a later pass that removes a sibling does not shift it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, Node

from ..core.decision import DecisionId

_META = "numbisect_label"
_BACKWARD = "numbisect_backward"
_ADOPTED = "numbisect_adopted"
_FIRST_WORD = re.compile(r"(?:bwd\.)?(\w+)")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


_LIBRARIES = f"{Path(torch.__file__).parents[1]}/"


def place(file: str, line: int) -> str:
    """`file:line`, of a library's from where libraries are installed: the same on another machine."""
    return f"{file.removeprefix(_LIBRARIES)}:{line}"


@dataclass(frozen=True)
class Label:
    """What is fixed about a node when it is first seen.

    op: as `op_name`; copy: which node of that op it is within its Dynamo node, from 0;
    alone: no other computing node has the same Dynamo node.
    """

    op: str
    copy: int
    alone: bool


def op_name(node: Node) -> str:
    """`aten.mul` for an ATen op (no overload), the bare name for other functions and methods."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target.overloadpacket)
    return target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)


def is_backward(node: Node) -> bool:
    """Whether the node computes a gradient, in a joint graph or a backward one.

    A forward node that is recomputed in the backward graph counts as backward there.
    """
    if node.meta.get("partitioner_tag") == "is_backward" or node.meta.get("autograd_backward"):
        return True
    if _ADOPTED in node.meta and node.meta[_ADOPTED][1]:
        return True
    return getattr(node.graph, _BACKWARD, False)


def mark_backward(graph: Graph) -> None:
    """Says that every node of the graph is named as a backward node."""
    setattr(graph, _BACKWARD, True)


def root_of(node: Node) -> str:
    """The Dynamo node that the node stems from, without the `bwd.` prefix.

    A gradient has no `from_node`; AOTAutograd copies the forward's `source_fn_stack` to it, whose last
    entry is the Dynamo node. A node that a pass made from scratch takes its first input's root.
    """
    seen: set[Node] = set()
    current = node
    while current not in seen:
        seen.add(current)
        if (root := _recorded_root(current)) is not None:
            return root
        inputs = current.all_input_nodes
        if not inputs:
            break
        current = inputs[0]
    return current.name if current.op == "placeholder" else node.name


def adopt(graph: Graph, root: str, backward: bool) -> None:
    """Names the nodes that a rewrite has just made, of which nothing is recorded, by what it rewrote."""
    for node in graph.nodes:
        # A rewrite may copy another node's meta, with a label that is not this node's.
        label = node.meta.get(_META)
        fresh = label is None or (node.op.startswith("call_") and label.op != op_name(node))
        if fresh and _recorded_root(node) is None:
            node.meta[_ADOPTED] = (root, backward)


def _recorded_root(node: Node) -> str | None:
    if (root := root_in(node.meta)) is not None:
        return root
    if _ADOPTED in node.meta:
        return node.meta[_ADOPTED][0]
    stack = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    return stack[-1][0] if stack else None


def root_in(meta: Mapping[str, Any]) -> str | None:
    """The Dynamo node that `from_node` leads to, in a node's meta or in that of a trace under way."""
    sources = meta.get("from_node")
    if not sources:
        return None
    source = sources[0]
    while source.from_node:
        source = source.from_node[0]
    return source.name


def node_name(node: Node) -> str:
    """The `node` part of an ID: the Dynamo name, `bwd.NAME` for a gradient or in a backward graph."""
    return f"bwd.{root_of(node)}" if is_backward(node) else root_of(node)


def label_of(node: Node) -> Label:
    """The node's label; labels the whole graph when it meets a node that has none (or another op's)."""
    label = node.meta.get(_META)
    if label is None or label.op != op_name(node):
        label_graph(node.graph)
        label = node.meta[_META]
    return label


def label_graph(graph: Graph) -> None:
    """Gives a label to each node that has none; a number once given is not given again."""
    nodes = list(graph.nodes)
    roots = {node: root_of(node) for node in nodes}
    crowd = Counter(roots[n] for n in nodes if n.op.startswith("call_") and op_name(n) != "getitem")
    taken: Counter[tuple[str, str]] = Counter()
    fresh = []
    for node in nodes:
        old = node.meta.get(_META)
        # A constant in the place of a folded node has the meta of that node, and keeps its number.
        if old is not None and (old.op == op_name(node) or node.op == "get_attr"):
            key = (roots[node], old.op)
            taken[key] = max(taken[key], old.copy + 1)
        else:
            fresh.append(node)
    for node in fresh:
        key = (roots[node], op_name(node))
        node.meta[_META] = Label(key[1], taken[key], crowd[roots[node]] <= 1)
        taken[key] += 1


def local_name(node: Node) -> str:
    """`mul`, `mul_1`…: which of the nodes of its Dynamo node it is."""
    label = label_of(node)
    short = label.op.rpartition(".")[2]
    return f"{short}_{label.copy}" if label.copy else short


def op_detail(node: Node) -> str:
    """The detail of an ID about one node: its op, `#k` for the k-th further copy within a Dynamo node."""
    label = label_of(node)
    return f"{label.op}#{label.copy}" if label.copy else label.op


def suffix(node: Node) -> str:
    """`/mul_1` where several nodes share the Dynamo node, else nothing: makes `detail@node` unique."""
    return "" if label_of(node).alone else f"/{local_name(node)}"


def handle(node: Node) -> str:
    """A node in one word, for the detail of IDs about two nodes: `ratio`, or `gelu.mul_1`."""
    return node_name(node) if label_of(node).alone else f"{node_name(node)}.{local_name(node)}"


def named_by(decision_id: DecisionId, nodes: Container[str]) -> set[str]:
    """The Dynamo nodes that an ID names: its own, and of `nodes` the one that its detail begins with."""
    other = _FIRST_WORD.match(decision_id.place)
    named = {decision_id.forward_node}
    return named | {other[1]} if other and other[1] in nodes else named


def where_of(node: Node) -> str:
    """The user's `file:line` of the node, "" if unknown."""
    return where_in(node.meta.get("stack_trace"))


# How Dynamo writes the way to a module: `L['self'].model.layers[3].mlp`, `L['args'][0].model.layers.3.mlp`.
_ROOT = re.compile(r"^L\['\w+'\](?:\[\d+\])?\.?")
_INDEX = re.compile(r"\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")


def module_of(node: Node) -> str:
    """The module of the model that the node comes from, `model.layers.3.mlp`; "" if it is unknown."""
    stack = node.meta.get("nn_module_stack") or {}
    last = next(reversed(list(stack.values())), None)
    path = last[0] if isinstance(last, tuple) and last and isinstance(last[0], str) else ""
    inside = _ROOT.sub("", path)
    dotted = _INDEX.sub(lambda found: "." + (found[1] or found[2] or found[3]), inside)
    return ".".join(name for name in dotted.split(".") if name and name not in ("_modules", "_orig_mod"))


def where_in(stack_trace: str | None) -> str:
    """The innermost `file:line` of a stack trace."""
    frames = _FRAME.findall(stack_trace or "")
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def value_of(node: Node) -> torch.Tensor | None:
    """The node's fake value if it is one tensor."""
    value: Any = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None
