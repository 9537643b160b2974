"""Tells for every op of a loop body which FX node's lowering emitted it. No decisions of its own.

Patches `Loops.__post_init__` (torch/_inductor/ir.py), where `V.graph.current_node` is the node being
lowered, and `LightTracer.create_node` (torch/_inductor/loop_body.py), through which every op of a loop body
is made. Exercised on torch 2.13. Inlining nests one `inner_fn` in another, so the innermost one is the
emitter. A loop body that is traced anew from an older one (reordered loops) hands its tags on.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.loop_body import LightTracer
from torch._inductor.virtualized import NullHandler, V
from torch.fx import Node

from ...core.decision import Decision, DecisionId
from .. import naming
from ..control import current
from .patching import require, wrap

_META = "numbisect_tag"
_SOURCE = "numbisect_node"


@dataclass
class _Call:
    """One evaluation of the inner function of `node`; edges counts what each operand fed so far."""

    node: Node
    edges: Counter[object] = field(default_factory=Counter)


@dataclass(frozen=True)
class Tag:
    """The emitter of one loop-body op.

    copies: for each argument, how many earlier ops of the same evaluation took an operand from the same
    place. The third product that one unrolled sum takes from one node has copy 2, in any kernel.
    """

    node: Node
    copies: tuple[int, ...]


_calls: list[_Call] = []


@functools.cache
def install() -> None:
    require(ir.Loops, "_post_init_setattr")
    wrap(ir.Loops, "__post_init__", _tag_inner_fn)
    wrap(LightTracer, "create_node", _tag_op)


def _tag_inner_fn(original: Callable[..., None]) -> Callable[..., None]:
    def post_init(self: ir.Loops) -> None:
        original(self)
        node = None if current() is None else getattr(V.graph, "current_node", None)
        if isinstance(node, Node) and callable(getattr(self, "inner_fn", None)):
            self._post_init_setattr(_SOURCE, node)
            self._post_init_setattr("inner_fn", emitted_by(node, self.inner_fn))

    return post_init


def emitted_by(node: Node, inner_fn: Callable[..., Any]) -> Callable[..., Any]:
    """`inner_fn`, with the ops that it emits tagged as the node's."""

    def tagged(*args: Any) -> Any:
        _calls.append(_Call(node))
        try:
            return inner_fn(*args)
        finally:
            _calls.pop()

    return tagged


def _tag_op(original: Callable[..., Node]) -> Callable[..., Node]:
    def create_node(self: LightTracer, *args: Any, **kwargs: Any) -> Node:
        op = original(self, *args, **kwargs)
        if current() is None:
            return op
        if _calls:
            op.meta[_META] = Tag(_calls[-1].node, _count_edges(_calls[-1], op))
        elif not isinstance(V.interpreter, NullHandler):
            older = V.interpreter.current_node
            if older is not None and older.target == op.target and _META in older.meta:
                op.meta[_META] = older.meta[_META]
        return op

    return create_node


def _count_edges(call: _Call, op: Node) -> tuple[int, ...]:
    if op.target not in ("add", "sub"):
        return (0,) * len(op.args)
    copies = []
    for place in map(_place, op.args):
        copies.append(call.edges[place])
        call.edges[place] += 1
    return tuple(copies)


def _place(operand: object) -> object:
    """Where an operand comes from, the same whether the producer is inlined or loaded from its buffer."""
    while isinstance(operand, Node) and operand.target == "to_dtype":
        operand = operand.args[1]
    if not isinstance(operand, Node):
        return None
    if operand.target == "load":
        return operand.args[1]
    tag = tag_of(operand)
    return tag.node if tag else None


def tag_of(op: Node | None) -> Tag | None:
    """The tag of a loop-body op; None for ops that torch adds after tracing (casts of the C++ backend)."""
    return op.meta.get(_META) if op is not None else None


def source_of_buffer(name: str) -> Node | None:
    """The FX node whose lowering made the buffer; None for inputs and constants."""
    buffer = V.graph.name_to_buffer.get(name) or _in_a_local_one(name)
    return None if buffer is None else source_of_ir(buffer)


def _in_a_local_one(name: str) -> Any:
    """The buffer of the graph that lies in a kernel's local one, None where the name is of none.

    A local buffer can serve several that live one after the other (`LocalBufferContext` in
    torch/_inductor/codegen/cpp_utils.py): it is the one that the scheduler node under way reads.
    """
    local: dict[str, Any] = getattr(V.local_buffer_context, "global_to_local", {})
    names = [served for served, buffer in local.items() if buffer.get_name() == name]
    node = getattr(V.kernel, "current_node", None)
    if len(names) > 1 and node is not None:
        read = {dep.name for dep in node.read_writes.reads}
        names = [served for served in names if served in read]
    return V.graph.name_to_buffer.get(names[0]) if len(names) == 1 else None


def source_of_leaf(leaf: Any) -> Node | None:
    """The FX node whose lowering made a scheduler node's computation."""
    return None if getattr(leaf, "node", None) is None else source_of_ir(leaf.node)


def source_of_ir(node: Any) -> Node | None:
    source = getattr(getattr(node, "data", None), _SOURCE, None) or getattr(node, "origin_node", None)
    if isinstance(source, Node):
        return source
    origins = [o for o in getattr(node, "origins", ()) if isinstance(o, Node)]
    return max(origins, default=None)  # FX nodes order by their place in the graph


def storage_of(result: Any) -> ir.StorageBox | None:
    """The storage that a lowering's result stands for, unless the result is a view of it."""
    box = result.data if isinstance(result, ir.TensorBox) else None
    return box if isinstance(box, ir.StorageBox) else None


def is_low_precision(dtype: torch.dtype | None) -> bool:
    """float16 and bfloat16: stored as they are, computed in float32."""
    return dtype in (torch.float16, torch.bfloat16)


def decision(kind: str, node: Node, text: str, detail: str | None = None) -> Decision:
    """The decision `kind:detail@node`; detail: the node's op where there is no other."""
    detail = naming.op_detail(node) if detail is None else detail
    return Decision(DecisionId.of(kind, detail, naming.node_name(node)), text, naming.where_of(node))


def described(node: Node) -> str:
    """A node for a decision's text."""
    return f"{naming.op_name(node)} of {naming.node_name(node)}"
