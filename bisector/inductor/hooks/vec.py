"""`vec:OP@node`: one operation computed by vector code; `vec:loop@node`: a whole loop vectorized.

Patches `TilingSelect.select_tiling` (torch/_inductor/codegen/cpp.py), where a C++ loop nest gets its vector
width, and adds a rule to `cpp_ops`. Exercised on torch 2.13. An op instance is one of INEXACT, whose vector
form (SLEEF, or a formula) need not give the bits of the scalar one. Denied, it is computed lane by lane with
the scalar expression while the rest of the kernel stays vectorized. `loop` stands for all else: the order
of a reduction over lanes, casts, masks. There is one for each scheduler node of the kernel, named by the FX
node whose lowering made it, so that the ID outlives a change of fusion.

A loop nest is scalar over the default compile when one of its loop decisions is denied, and over the plain
baseline when neither a loop decision nor an op instance in it is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch._inductor.codegen import cpp
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP, cexpr_index
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V
from torch.fx import Node

from ...core import kinds
from ...core.decision import DecisionId
from ...core.model import Base
from .. import naming
from ..control import Control, current
from . import cpp_ops, tags
from .patching import require, wrap

KIND = kinds.VEC

INEXACT = frozenset(
    {
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc", "erfinv",
        "exp", "exp2", "expm1", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2", "pow",
        "remainder", "rsqrt", "sigmoid", "sin", "sinh", "tan", "tanh",
    }
)  # fmt: skip
# Ops that the scalar backend composes of several (OpOverrides, torch/_inductor/codegen/common.py), as one
# expression of the same parts.
_COMPOSED = {
    "remainder": "[&] {{ auto r = mod({0}, {1});"
    " return r != 0 && std::signbit(r) != std::signbit({1}) ? decltype(r)(r + {1}) : r; }}()",
}


def install() -> None:
    tags.install()
    cpp_ops.install()
    require(cpp, "CppVecOverrides", "CppVecKernel")
    wrap(cpp.TilingSelect, "select_tiling", _choose_scalar)
    cpp_ops.add_rule(_scalar_op)


def has_vector_form(name: str) -> bool:
    """Whether the op is one of INEXACT that this torch does not already compute lane by lane."""
    form = getattr(cpp.CppVecOverrides, name, None)
    return name in INEXACT and form is not None and "_scalarize" not in form.__qualname__


def _ask_op(control: Control, name: str, node: Node) -> bool:
    text = f"{name} of {tags.described(node)} is computed by vector code"
    return control.take(tags.decision(KIND.name, node, text, _op_detail(name, node)))


def _op_id(name: str, node: Node) -> DecisionId:
    return DecisionId.of(KIND.name, _op_detail(name, node), naming.node_name(node))


def _op_detail(name: str, node: Node) -> str:
    return name if naming.local_name(node) == name else f"{name}{naming.suffix(node)}"


def _ask_loop(control: Control, node: Node) -> bool:
    text = f"the loop that computes {tags.described(node)} is vectorized"
    return control.take(tags.decision(KIND.name, node, text, f"loop{naming.suffix(node)}"))


def _choose_scalar(original: Callable[..., Any]) -> Callable[..., Any]:
    def select_tiling(self: Any, fn_list: Any, var_sizes_list: Any) -> Any:
        tiling = original(self, fn_list, var_sizes_list)
        control = current(KIND.name)
        leaves = [leaf for leaf in map(_leaf, fn_list) if leaf is not None]
        if control is None or not tiling[1] or not leaves:
            return tiling
        sources = [source for leaf in leaves if (source := tags.source_of_leaf(leaf)) is not None]
        loops = [_ask_loop(control, node) for node in sources]
        if control.base is Base.DEFAULT:
            vectorize = all(loops)
        else:
            ops = [instance for leaf in leaves for instance in _op_instances(leaf)]
            vectorize = any(loops) or any(control.allows(_op_id(name, node)) for name, node in ops)
        return tiling if vectorize else ([], [], *tiling[2:])

    return select_tiling


def _leaf(fn: Any) -> Any:
    """The scheduler node that a function of `CppKernelProxy.codegen_nodes` writes; None for a template's."""
    args = getattr(getattr(fn, "original_fn", fn), "args", ())
    return args[0] if args else None


def _op_instances(leaf: Any) -> list[tuple[str, Node]]:
    ops = [(op, tags.tag_of(op)) for op in leaf._body.get_nodes() if op.op == "call_method"]
    return [(op.target, tag.node) for op, tag in ops if tag is not None and has_vector_form(op.target)]


def _scalar_op(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    control, tag = current(KIND.name), op.tag
    if control is None or tag is None or not has_vector_form(op.name):
        return write(op)
    if not isinstance(op.kernel, cpp.CppVecKernel) or not any(getattr(a, "is_vec", False) for a in op.args):
        return write(op)
    if any(getattr(arg, "dtype", None) not in (torch.float, torch.double) for arg in op.args):
        return write(op)
    if _ask_op(control, op.name, tag.node):
        return write(op)
    vectors = tuple(arg if arg.is_vec else op.kernel.broadcast(arg) for arg in op.args)
    lanes = LaneByLane(op.proxy.parent_handler, op.name)
    proxy = op.proxy
    before, proxy.parent_handler = proxy.parent_handler, lanes
    try:
        return write(replace(op, args=vectors))
    finally:
        proxy.parent_handler = before


def scalar_expression(name: str, operands: list[str]) -> str:
    """What the scalar backend writes for the op, with C++ names for its operands."""
    if name in _COMPOSED:
        return _COMPOSED[name].format(*operands)
    return getattr(cpp.CppOverrides, name)(*operands)


class LaneByLane:
    """An ops handler that writes one op lane by lane and hands all others to `parent`."""

    def __init__(self, parent: Any, name: str) -> None:
        self._parent = parent
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return self._write if name == self._name else getattr(self._parent, name)

    def _write(self, *vectors: Any) -> IndentedBuffer:
        """A lambda that stores each vector, loops over the lanes and loads the result, as torch's own
        `CppVecOverrides._scalarize` does. All vectors have one dtype."""
        kernel, dtype = V.kernel, vectors[0].dtype
        scalar, count = DTYPE_TO_CPP[dtype], kernel._get_num_vectors(dtype)
        lanes = cexpr_index(kernel.tail_size or kernel.tiling_factor)
        array = f"__at_align__ std::array<{scalar}, {kernel.tiling_factor}>"
        vector = (
            f"at::vec::Vectorized<{scalar}>" if count == 1 else f"at::vec::VectorizedN<{scalar}, {count}>"
        )
        names = [f"x{i}" for i in range(len(vectors))]
        code = cpp.BracesBuffer()
        code.writeline(f"[&]() -> {vector}")
        with code.indent():
            for name, value in zip(names, vectors, strict=True):
                code.writeline(f"{array} {name}s;")
                code.writeline(f"{value}.store({name}s.data(), {lanes});")
            code.writeline(f"{array} results;")
            code.writeline(f"for (int i = 0; i < {lanes}; i++)")
            with code.indent():
                for name in names:
                    code.writeline(f"const {scalar} {name} = {name}s[i];")
                code.writeline(f"results[i] = {scalar_expression(self._name, names)};")
            code.writeline(f"return {vector}::loadu(results.data(), {lanes});")
        code.writeline("()")
        return code
