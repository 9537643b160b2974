"""`cudagraph:forward@graph`, `cudagraph:backward@graph`: the kernels of one graph recorded and replayed.

Patches `cudagraph_post_compile` and `cudagraph_partition_post_compile` (torch/_inductor/output_code.py).
Denied, the graph launches its kernels one by one, as where Inductor finds a reason not to record. There are
such decisions on a CUDA device alone. Written for torch 2.13; no GPU was at hand to run it on.

A probe compiles the backward graph before the forward one has run, which makes the manager of recordings that
`maybe_handle_backward_generation` expects: it is made there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import cudagraph_trees, output_code

from ...core import kinds
from ..control import current
from .patching import require, wrap

KIND = kinds.CUDAGRAPH

_recorded = 0  # graphs of this process whose kernels are to be recorded


def install() -> None:
    require(output_code, "maybe_handle_backward_generation", "BoxedBool")
    require(cudagraph_trees, "get_manager")
    wrap(output_code, "maybe_handle_backward_generation", _with_manager)
    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
        wrap(output_code, name, _counted)
        wrap(output_code, name, _ask)


def recorded() -> int:
    """How many graphs were compiled to be recorded. Their first run is torch's warm-up, the second records,
    and from then on they are replayed (torch/_inductor/cudagraph_trees.py)."""
    return _recorded


def _counted(original: Callable[..., None]) -> Callable[..., None]:
    def post_compile(inputs: Any, graph: Any, cudagraphs: Any, constants: Any, device_index: Any) -> None:
        global _recorded
        original(inputs, graph, cudagraphs, constants, device_index)
        _recorded += bool(cudagraphs)

    return post_compile


def _with_manager(original: Callable[..., None]) -> Callable[..., None]:
    def handle(graph: Any, device_index: Any) -> None:
        trees = torch._inductor.config.triton.cudagraph_trees
        if graph.fx_kwargs["is_backward"] and trees and device_index.value is not None:
            cudagraph_trees.get_manager(device_index.value)
        original(graph, device_index)

    return handle


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
