"""One place where hooks change how the Triton backend writes a single op. No decisions of its own.

Patches `CSEProxy._default` (torch/_inductor/codegen/common.py) as `cpp_ops` does, for the kernels of
torch/_inductor/codegen/triton.py, and `TritonKernel.triton_meta_common` there, which writes the compile
options of one kernel. Exercised on torch 2.13, with a pretended device: code was generated and compiled to
machine code, and never run.

What belongs to a kernel is asked for each of its nodes, named by the FX node whose lowering made it, so
that the IDs outlive a change of fusion: over the default compile the kernel needs all of them, over the
plain baseline one is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._inductor.codegen import common
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.virtualized import V
from torch.fx import Node

from ...core.model import Base
from .. import naming
from ..control import Control, current
from . import tags
from .cpp_ops import Rule, applying
from .patching import require, wrap

# Body ops that compute nothing that could be rounded otherwise.
_MOVES_DATA = frozenset(
    {
        "check_bounds", "constant", "get_index", "index_expr", "indirect_indexing", "load", "load_seed",
        "masked", "output", "store", "store_reduction", "to_dtype", "to_dtype_bitcast", "where",
    }
)  # fmt: skip

Options = dict[str, Any]
_rules: list[Rule] = []
_options: list[Callable[[Options, Any], None]] = []


@functools.cache
def install() -> None:
    tags.install()
    require(common.CSEProxy, "_default")
    require(TritonKernel, "triton_meta_common", "codegen_kernel")
    wrap(common.CSEProxy, "_default", applying(_rules, is_triton))
    wrap(TritonKernel, "triton_meta_common", _change_options)


def control_for(kind: str, part: str) -> Control | None:
    """The active Control, unless the kind is switched off or its part on Triton is."""
    return current(kind) if current(part) is not None else None


def add_rule(rule: Rule) -> None:
    """The rule sees every loop-body op of a Triton kernel while a Control is active."""
    if rule not in _rules:
        _rules.append(rule)


def add_option_rule(rule: Callable[[Options, Any], None]) -> None:
    """The rule may change the compile options of a kernel that is being finished."""
    if rule not in _options:
        _options.append(rule)


def is_triton(kernel: Any) -> bool:
    return isinstance(kernel, TritonKernel)


def on_nvidia() -> bool:
    """Whether the kernel at hand is for an NVIDIA device: other devices know no PTX."""
    device = V.graph.get_current_device_or_throw()
    return device.type == "cuda" and torch.version.hip is None


def leaves(kernel: Any) -> list[Any]:
    """The scheduler nodes that the kernel computes; none for a template's kernel."""
    features = getattr(kernel, "features", None)
    return list(features.scheduler_nodes()) if features is not None else []


def body_ops(leaf: Any) -> list[Node]:
    """The ops of a leaf's loop body that compute something."""
    body = getattr(leaf, "_body", None)
    nodes = body.get_nodes() if body is not None else ()
    return [n for n in nodes if n.op == "call_method" and n.target not in _MOVES_DATA]


def sources(nodes: Iterable[Any]) -> list[Node]:
    """The FX nodes behind scheduler nodes, each once."""
    found = (tags.source_of_leaf(leaf) for leaf in nodes)
    return list(dict.fromkeys(node for node in found if node is not None))


def allowed(control: Control, kind: str, detail: str, nodes: Iterable[Any], text: str) -> bool:
    """Asks `kind:detail@node` for each leaf of a kernel. text: has a place for the node's description.

    True where there is nobody to ask.
    """
    answers = [
        control.take(
            tags.decision(kind, node, text.format(tags.described(node)), f"{detail}{naming.suffix(node)}")
        )
        for node in sources(nodes)
    ]
    if not answers:
        return True
    return any(answers) if control.base is Base.PLAIN else all(answers)


def _change_options(original: Callable[..., Options]) -> Callable[..., Options]:
    def triton_meta_common(cls: Any) -> Options:
        options = original(cls)
        if current() is not None and is_triton(V.kernel):
            for rule in _options:
                rule(options, V.kernel)
        return options

    return triton_meta_common
