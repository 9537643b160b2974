"""Where the compiler sends Dynamo back to its analysis: the graph that comes in the end is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch._guards import TracingContext, tracing
from torch.fx.experimental.symbolic_shapes import SymT, symbol_is_type


class _Traced(Exception):
    """Tracing has come to its end without a restart."""


def restart_as_the_compiler_would(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], context: TracingContext
) -> None:
    """Raises what AOTAutograd raises for a float that cannot stay a symbol, so that Dynamo makes it a
    constant and begins anew (torch/fx/passes/_tensorify_python_scalars.py). Asked where there is such a
    symbol alone: of a Python float or a scalar in float64."""
    shapes = getattr(context.fake_mode, "shape_env", None)
    name = "backed_var_to_val" if hasattr(shapes, "backed_var_to_val") else "var_to_val"  # its older name
    symbols = getattr(shapes, name, {})
    if not any(symbol_is_type(symbol, SymT.FLOAT) for symbol in symbols):
        return
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    def enough(*args: Any, **kwargs: Any) -> NoReturn:
        raise _Traced

    trace = aot_autograd(fw_compiler=enough, bw_compiler=enough, decompositions=select_decomp_table())
    own = TracingContext(context.fake_mode)
    own.tensor_to_context = context.tensor_to_context
    try:
        with tracing(own):
            trace(gm, list(inputs))
    except _Traced:
        return
