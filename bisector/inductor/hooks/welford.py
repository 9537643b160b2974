"""`welford:OP@node`: how a variance is computed: by Welford's recurrence in one pass, or in two passes.

Patches `use_two_step_variance` (torch/_inductor/lowering.py), which chooses by the number of elements.
Denied, the other algorithm is taken: neither is eager's, whose partial sums follow its own tiles. Exercised
on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import lowering
from torch._inductor.virtualized import V

from ...core import kinds
from ..control import current
from . import tags
from .patching import wrap

KIND = kinds.WELFORD


def install() -> None:
    wrap(lowering, "use_two_step_variance", _ask)


def _ask(original: Callable[..., bool]) -> Callable[..., bool]:
    def use_two_step_variance(*args: Any, **kwargs: Any) -> bool:
        two_steps = original(*args, **kwargs)
        control, node = current(KIND.name), V.graph.current_node
        if control is None:
            return two_steps
        how = "in two passes, not by Welford's recurrence" if two_steps else "by Welford's recurrence"
        text = f"the variance of {tags.described(node)} is computed {how}"
        return two_steps if control.take(tags.decision(KIND.name, node, text)) else not two_steps

    return use_two_step_variance
