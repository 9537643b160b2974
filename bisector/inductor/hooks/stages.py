"""Which graph Inductor is rewriting now, for the names of passes and matches. No decisions of its own.

Patches the names `pre_grad_passes`, `joint_graph_passes` and `post_grad_passes` in
torch/_inductor/compile_fx.py, and `freeze` (torch/_inductor/freezing.py), which comes between the last two
where parameters are constants. Exercised on torch 2.13. On entry to all but the first the graph is labelled,
before any pass renumbers what stems from one Dynamo node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._inductor import compile_fx, freezing
from torch.fx import Graph, GraphModule

from .. import naming
from ..control import current
from .patching import require, wrap

_stage = ""


@functools.cache
def install() -> None:
    names = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes")
    require(compile_fx, *names)
    for name in names:
        wrap(compile_fx, name, functools.partial(_note_stage, name.split("_")[0]))
    wrap(freezing, "freeze", _note_freezing)


def stage() -> str:
    """`pre_grad`, `joint`, `freezing`, `post_grad`, `bwd.post_grad`; "" where nothing is a decision."""
    return _stage


@contextmanager
def _within(word: str) -> Iterator[None]:
    global _stage
    before, _stage = _stage, word
    try:
        yield
    finally:
        _stage = before


def structural() -> Any:
    """A block in which nothing is a decision, because the compile would break without it."""
    return _within("")


def _note_stage(word: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def run_passes(gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(gm, *args, **kwargs)
        with _within(_stage_of(gm.graph, word)):
            return original(gm, *args, **kwargs)

    return run_passes


def _note_freezing(original: Callable[..., Any]) -> Callable[..., Any]:
    def freeze(dynamo_gm: GraphModule, gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(dynamo_gm, gm, *args, **kwargs)
        naming.label_graph(gm.graph)
        with _within("freezing"):
            return original(dynamo_gm, gm, *args, **kwargs)

    return freeze


def _stage_of(graph: Graph, word: str) -> str:
    if word == "pre":
        return "pre_grad"
    if word == "joint":
        naming.label_graph(graph)
        return "joint"
    inputs = graph.find_nodes(op="placeholder")
    # Only the tangents of a backward graph are inputs that belong to the backward.
    if any(node.meta.get("partitioner_tag") == "is_backward" for node in inputs):
        naming.mark_backward(graph)
        naming.label_graph(graph)
        return "bwd.post_grad"
    naming.label_graph(graph)
    return "post_grad"
