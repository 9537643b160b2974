"""`unroll:OP@node`: a small reduction written out as a chain of operations in each of its users.

Patches `Reduction._unroll_reduction_fn` (torch/_inductor/ir.py), which Inductor calls once it has decided to
unroll, and the `create` of the two classes that call it: where the decision is denied they are called again
with a threshold under which nothing is unrolled. Exercised on torch 2.13. One ID covers all reductions in the
lowering of one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch._inductor.config as inductor_config
from torch._inductor import ir
from torch._inductor.virtualized import V

from ...core import kinds
from ..control import current
from . import tags
from .patching import require, wrap

KIND = kinds.UNROLL


class _Denied(Exception):
    """Leaves a `create` that is about to unroll."""


def install() -> None:
    require(inductor_config, "unroll_reductions_threshold")
    wrap(ir.Reduction, "_unroll_reduction_fn", _ask)
    wrap(ir.Reduction, "create", _rolled_where_denied)
    if "create" in vars(getattr(ir, "ArgReduction", object)):  # since torch 2.13
        wrap(ir.ArgReduction, "create", _rolled_where_denied)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def unroll(*args: Any, **kwargs: Any) -> Any:
        control, node = current(KIND.name), V.graph.current_node
        if control is not None:
            text = f"the reduction of {tags.described(node)} is written out as a chain of operations"
            if not control.take(tags.decision(KIND.name, node, text)):
                raise _Denied
        return original(*args, **kwargs)

    return unroll


def _rolled_where_denied(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(cls: type, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(cls, *args, **kwargs)
        except _Denied:
            with inductor_config.patch(unroll_reductions_threshold=0):
                return original(cls, *args, **kwargs)

    return create
