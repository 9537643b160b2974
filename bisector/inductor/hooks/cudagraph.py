"""`cudagraph:forward@graph`, `cudagraph:backward@graph`: the kernels of one graph recorded and replayed.

Patches `cudagraph_post_compile` and `cudagraph_partition_post_compile` (torch/_inductor/output_code.py).
Denied, the graph launches its kernels one by one, as where Inductor finds a reason not to record. There are
such decisions on a CUDA device alone. Written for torch 2.13; no GPU was at hand to run it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import output_code

from ...core import kinds
from ..control import current
from .patching import require, wrap

KIND = kinds.CUDAGRAPH


def install() -> None:
    require(output_code, "maybe_handle_backward_generation", "BoxedBool")
    wrap(output_code, "cudagraph_post_compile", _ask)
    wrap(output_code, "cudagraph_partition_post_compile", _ask)


def _ask(original: Callable[..., None]) -> Callable[..., None]:
    def post_compile(inputs: Any, graph: Any, cudagraphs: Any, constants: Any, device_index: Any) -> None:
        control = current(KIND.name)
        if control is None or graph.cudagraph_info is None or graph.cudagraph_info.cudagraph_fail_reasons:
            return original(inputs, graph, cudagraphs, constants, device_index)
        half = "backward" if graph.fx_kwargs.get("is_backward") else "forward"
        text = f"the kernels of the {half} graph are recorded once and replayed"
        if control.ask(KIND.name, half, "graph", text):
            return original(inputs, graph, cudagraphs, constants, device_index)
        output_code.BoxedBool.disable(cudagraphs)
        output_code.maybe_handle_backward_generation(graph, device_index)
        return None

    return post_compile
