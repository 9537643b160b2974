"""`split:OP@node`: a reduction (or scan) computed in parts that run side by side and are combined at the end.

Patches `Reduction.num_splits` (torch/_inductor/ir.py), which every kind of reduction asks; its first result
is a hint about the loop's order, the second the number of parts, or -1 for the parts of an earlier
reduction. Denied, it is one part. Exercised on torch 2.13. The C++ backend never splits: there is no such
decision on the CPU. One ID covers all reductions in the lowering of one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.fx import Node

from ...core import kinds
from ..control import current
from . import tags
from .patching import wrap

KIND = kinds.SPLIT


def install() -> None:
    wrap(ir.Reduction, "num_splits", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def num_splits(*args: Any, **kwargs: Any) -> Any:
        hint, parts = original(*args, **kwargs)
        control, node = current(KIND.name), V.graph.current_node
        if control is None or parts == 1 or not isinstance(node, Node):
            return hint, parts
        text = f"the reduction of {tags.described(node)} is computed in parts"
        return hint, (parts if control.take(tags.decision(KIND.name, node, text)) else 1)

    return num_splits
