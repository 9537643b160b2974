"""`const:DTYPE@node`: a Python scalar that eager rounds to the tensor's dtype is kept in float32.

Eager on the CPU rounds the scalar of `tensor + 1.7` and `tensor - 1.7` to the tensor's float16 or bfloat16
before it adds (`*` does not); Inductor's lowering keeps it in float32. Patches `GraphLowering.run_node`
(torch/_inductor/graph.py): denied, the node is lowered with the rounded scalar. Listed only where rounding
changes the scalar. From torch 2.14 on the lowering rounds as eager does. Exercised on torch 2.11 to 2.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import lowering
from torch._inductor.graph import GraphLowering
from torch.fx import Node

from ...core import kinds
from .. import naming
from ..control import current
from ..tensors import dtype_name
from . import tags
from .patching import NotTaken, wrap

KIND = kinds.CONST

_ROUNDS_SCALAR = frozenset({"aten.add", "aten.sub"})


def install() -> None:
    if "round_scalars_to_tensor_dtype" in inspect.signature(lowering.promote_constants).parameters:
        raise NotTaken("Inductor rounds the scalar as eager does")
    wrap(GraphLowering, "run_node", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(self: GraphLowering, node: Node) -> Any:
        control = current(KIND.name)
        if control is None or (args := _rounded_args(node)) is None:
            return original(self, node)
        value = naming.value_of(node)
        dtype = dtype_name(value.dtype) if value is not None else ""
        text = f"the scalar operand of {tags.described(node)} is not rounded to {dtype}"
        detail = f"{dtype}{naming.suffix(node)}"
        if control.take(tags.decision(KIND.name, node, text, detail)):
            return original(self, node)
        with _args(node, args):
            return original(self, node)

    return run_node


def _rounded_args(node: Node) -> tuple[Any, ...] | None:
    """The node's arguments with their scalars rounded to its dtype; None if that changes nothing."""
    value = naming.value_of(node)
    if value is None or not tags.is_low_precision(value.dtype) or value.device.type != "cpu":
        return None
    if node.op != "call_function" or naming.op_name(node) not in _ROUNDS_SCALAR:
        return None
    rounded = tuple(
        torch.tensor(a, dtype=value.dtype).item() if isinstance(a, float) else a for a in node.args
    )
    return None if rounded == node.args else rounded


@contextmanager
def _args(node: Node, args: tuple[Any, ...]) -> Iterator[None]:
    before, node.args = node.args, args
    try:
        yield
    finally:
        node.args = before
