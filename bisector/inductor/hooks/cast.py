"""`cast:DTYPE@node`: the rounding of a float16 or bfloat16 result is left out inside a fused kernel.

Eager rounds after each op. Inductor computes such values in float32, and a value that is used within the
kernel that makes it never gets rounded. Two places, one decision (exercised on torch 2.13):
- a value that is inlined: `GraphLowering.run_node` (torch/_inductor/graph.py). Denied, its inner function
  casts down and up again, and the C++ backend may not pair the two casts off (`to_dtype` in
  torch/_inductor/codegen/cpp.py remembers the inverse of each down-cast);
- a buffer that is stored and used in one kernel: `CSEProxy.load` (torch/_inductor/codegen/common.py) hands
  on the unrounded register. Denied, the user converts the rounded value.
Where two casts of one value share a variable, denying one rounds what is computed after it for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.codegen import common, cpp
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V, ops
from torch.fx import Node

from ...core import kinds
from ...core.decision import Decision
from .. import naming
from ..control import Control, current
from ..tensors import dtype_name
from . import cpp_ops, inline, tags
from .patching import require, wrap

KIND = kinds.CAST

# Ops whose result is representable whenever their inputs are: the rounding belongs to the input.
_EXACT = frozenset(
    f"aten.{name}"
    for name in (
        "abs", "alias", "amax", "amin", "clamp_max", "clamp_min", "clone", "copy", "expand", "index",
        "maximum", "minimum", "neg", "permute", "relu", "select", "slice", "squeeze", "unsqueeze", "view",
        "where",
    )
)  # fmt: skip



def install() -> None:
    tags.install()
    cpp_ops.install()
    require(cpp.CppKernel, "get_to_dtype_expr", "cache_dtype_convert")
    require(config, "emulate_precision_casts")
    wrap(GraphLowering, "run_node", _round_inlined)
    wrap(common.CSEProxy, "load", _round_forwarded)
    cpp_ops.add_rule(_keep_cast)


def _decision(node: Node, dtype: torch.dtype) -> Decision:
    text = f"the result of {tags.described(node)} is not rounded to {dtype} before its use in the same kernel"
    return tags.decision(KIND.name, node, text, f"{dtype_name(dtype)}{naming.suffix(node)}")


def allowed(control: Control, node: Node, dtype: torch.dtype) -> bool:
    """Whether the rounding may be left out."""
    return control.take(_decision(node, dtype))


def _round_inlined(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(self: GraphLowering, node: Node) -> Any:
        result = original(self, node)
        control = current(KIND.name)
        if control is not None and node.op == "call_function" and naming.op_name(node) not in _EXACT:
            box = inline.inlined_here(node, result)
            if box is not None and isinstance(box.data, ir.Pointwise):
                _ask_inlined(control, node, box.data)
        return result

    return run_node


def _ask_inlined(control: Control, node: Node, data: ir.Pointwise) -> None:
    if tags.is_low_precision(data.dtype) and not allowed(control, node, data.dtype):
        rounding = _rounding(data.inner_fn, data.dtype)
        data._post_init_setattr("inner_fn", tags.emitted_by(node, rounding))


def _rounding(inner_fn: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    def round_trip(*args: Any) -> Any:
        low = ops.to_dtype(inner_fn(*args), dtype, use_compute_types=False)
        return ops.to_dtype(low, dtype)

    return round_trip


def _keep_cast(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    """A down-cast of a denied node must not be undone by the up-cast that follows it."""
    control, tag = current(KIND.name), op.tag
    if control is None or op.name != "to_dtype" or len(op.args) < 2:
        return write(op)
    dtype: torch.dtype = op.args[1]
    if not tags.is_low_precision(dtype):
        return write(op)
    if tag is None or control.allows(_decision(tag.node, dtype).id):
        return write(op)
    with config.patch(emulate_precision_casts=True):
        low = write(op)
    _forget_inverse(op.kernel, low, dtype)
    return low


def _forget_inverse(kernel: cpp.CppKernel, low: Any, dtype: torch.dtype) -> None:
    """Up-casts of `low` from here on convert it, whatever float32 variable it came from."""
    inverse = kernel.get_to_dtype_expr(low, torch.float, dtype)
    if kernel.cse.contains(inverse):
        del kernel.cse._cache[kernel.cse.augment_key(inverse)]


def _round_forwarded(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, name: str, index: Any) -> Any:
        control = current(KIND.name)
        if control is None or not isinstance(V.kernel, cpp.CppKernel):
            return original(self, name, index)
        forwarded = name in self.kernel.cse.store_cache
        value = original(self, name, index)
        node = tags.source_of_buffer(name) if forwarded else None
        if node is None:
            return value
        dtype = V.graph.get_dtype(name)
        if not tags.is_low_precision(dtype) or allowed(control, node, dtype):
            return value
        if value.dtype != dtype:  # a reduction's float32 accumulator
            with config.patch(emulate_precision_casts=True):
                value = self._default("to_dtype", (value, dtype), {"src_dtype": value.dtype})
        _forget_inverse(V.kernel, value, dtype)
        return value

    return load
