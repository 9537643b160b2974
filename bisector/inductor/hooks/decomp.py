"""`decomp:OP@node`: an op decomposed while it is traced; denied, it stays one op and its ATen kernel runs.

Patches `maybe_handle_decomp` (torch/fx/experimental/proxy_tensor.py), the table of decompositions at work,
and two names in torch/_inductor/graph.py: `make_fallback`, which refuses a fallback for an op that has a
decomposition, and `fallback_node_due_to_unsupported_type`. Exercised on torch 2.13. Only the outermost
decomposition at a call site is asked; one ID covers all calls of the op in one Dynamo node. Traces that no
Dynamo node is behind (the patterns of the pattern matcher) are left alone.

Some ops a Python kernel decomposes before the table is asked. For these, entries of `OpOverload.py_kernels`
(torch/_ops.py) are replaced, for the keys CompositeImplicitAutograd and Autograd, which torch/_decomp
registers with `py_impl` and AOTAutograd's Python dispatcher calls. Eager runs the C++ kernel of the same op
there; denied, so does the trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx.traceback
from torch._C import DispatchKey
from torch._inductor import graph
from torch._ops import OpOverload
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx import Graph, Node
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from ...core import kinds
from ...core.decision import Decision, DecisionId
from .. import naming
from ..control import current
from .patching import require, wrap

KIND = kinds.DECOMP

# Decompositions that only move, cast or create data: eager does the same bits, and Inductor's fallbacks
# cannot take their place (a view must alias, a cast must keep its layout). One that creates data like a
# tensor's is asked where it lays it out in another way (`_lays_out_otherwise`).
_MOVES_DATA = frozenset(
    {
        "aten._to_copy", "aten._unsafe_view", "aten.alias", "aten.arange", "aten.clone", "aten.copy",
        "aten.detach", "aten.empty", "aten.empty_like", "aten.fill", "aten.full_like", "aten.lift",
        "aten.lift_fresh", "aten.lift_fresh_copy", "aten.new_empty", "aten.new_full", "aten.new_ones",
        "aten.new_zeros", "aten.ones", "aten.ones_like", "aten.select_backward", "aten.slice_backward",
        "aten.split_with_sizes", "aten.stack", "aten.sym_numel", "aten.to", "aten.unbind", "aten.zero",
        "aten.zeros", "aten.zeros_like",
    }
)  # fmt: skip
_Kernel = Callable[..., Any]


def install() -> None:
    require(torch.fx.traceback, "get_current_meta")
    wrap(proxy_tensor, "maybe_handle_decomp", _ask)
    wrap(graph, "make_fallback", _permit_fallback)
    wrap(graph, "fallback_node_due_to_unsupported_type", _keep_whole)
    _wrap_composites()


def moves_data(op: str) -> bool:
    """Whether the op (by the name of its packet) only creates, copies or views data."""
    return op in _MOVES_DATA


@functools.cache
def is_choice(op: OpOverload) -> bool:
    """Whether the op could stay as it is. Views and mutations are functionalized through their
    decompositions; calls that draw random numbers share Inductor's random state through theirs."""
    schema = op._schema
    if moves_data(str(op.overloadpacket)) or op.namespace not in ("aten", "prims"):
        return False
    if op.is_view or schema.is_mutable:
        return False
    return all("Tensor" in str(result.type) for result in schema.returns)


def _lays_out_otherwise(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the decomposition of `zeros_like` and its kin gives other strides than the kernel, which keeps
    those of a dense tensor (aten/src/ATen/native/TensorFactories.cpp, `empty_like`)."""
    if not str(op.overloadpacket).endswith("_like") or kwargs.get("memory_format") is not None:
        return False
    like = args[0]
    if not isinstance(like, torch.Tensor) or not is_non_overlapping_and_dense_or_false(like):
        return False
    with disable_proxy_modes_tracing():
        made = op(*args, **kwargs)
    return bool(made.layout is torch.strided and made.stride() != like.stride())


def _allowed_composite(op: OpOverload) -> bool:
    """Asks for an op that Python is about to decompose."""
    control, node = current(KIND.name), _site(None)
    return control is None or node is None or control.take(_decision(op, node))


def _draws(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of the op draws random numbers: a dropout does not, outside of training."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    names = [argument.name for argument in op._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return not any(given.get(name) is False for name in ("train", "training"))


def _decision(op: OpOverload, node: str) -> Decision:
    where = naming.where_in((torch.fx.traceback.get_current_meta() or {}).get("stack_trace"))
    text = f"{op.overloadpacket} of {node} is decomposed into simpler ops"
    return Decision(_id(op, node), text, where)


def _id(op: OpOverload, node: str) -> DecisionId:
    return DecisionId.of(KIND.name, str(op.overloadpacket), node)


def _site(graph_so_far: Graph | None) -> str | None:
    """The Dynamo node that is being traced, `bwd.NAME` for its gradient; None outside of any."""
    backward = torch._C._current_autograd_node()
    if backward is None:
        return naming.root_in(torch.fx.traceback.get_current_meta() or {})
    meta = torch.fx.traceback.get_current_meta() or {}
    numbers = meta.get("grad_fn_seq_nr") or [None]
    for node in graph_so_far.nodes if graph_so_far is not None else ():
        root = naming.root_in(node.meta)
        if root is not None and node.meta.get("seq_nr") == numbers[-1]:
            return f"bwd.{root}"
    return f"bwd.{backward.name()}"


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def maybe_handle_decomp(mode: Any, op: OpOverload, args: Any, kwargs: Any) -> Any:
        control = current(KIND.name)
        asked = control is not None and op in _table(mode) and mode.decomp_layers == 0
        asked = asked and not _draws(op, args, kwargs)
        asked = asked and (is_choice(op) or _lays_out_otherwise(op, args, kwargs))
        node = _site(mode.tracer.graph) if asked else None
        if control is None or node is None:
            return original(mode, op, args, kwargs)
        decision = _decision(op, node)
        if control.refuses(decision):
            return NotImplemented
        try:
            result = original(mode, op, args, kwargs)
        except Exception:
            control.take(decision)
            raise
        if result is not NotImplemented:  # some table entries look at the arguments and give up
            control.take(decision)
        return result

    return maybe_handle_decomp


def _table(mode: Any) -> Mapping[OpOverload, Any]:
    """The decompositions that are in force. Before torch 2.13 they are the module's: in 2.11 a dictionary, in
    2.12 a variable of the context."""
    found: Any = getattr(mode, "decomposition_table", None)
    if found is None:
        found = vars(proxy_tensor)["CURRENT_DECOMPOSITION_TABLE"]
    table: Mapping[OpOverload, Any] = found if isinstance(found, Mapping) else found.get({})
    return table


def _keep_whole(original: Callable[..., bool]) -> Callable[..., bool]:
    """An op that a denial kept whole runs its ATen kernel even if Inductor has a lowering for it."""

    def must_fall_back(node: Node, *args: Any, **kwargs: Any) -> bool:
        if original(node, *args, **kwargs):
            return True
        control, op = current(KIND.name), node.target
        if control is None or not isinstance(op, OpOverload):
            return False
        return control.denied(_id(op, naming.node_name(node)))

    return must_fall_back


def _permit_fallback(original: Callable[..., Any]) -> Callable[..., Any]:
    def make_fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
        if current(KIND.name) is not None:
            kwargs["override_decomp"] = True
        return original(op, *args, **kwargs)

    return make_fallback


def _wrap_composites() -> None:
    """The ops that a Python kernel decomposes before the tracer sees them."""
    require(torch.ops.aten.add.Tensor, "_op_dk", "_dispatch_cache", "py_kernels", "decompose")
    for op in _registered():
        if not is_choice(op):
            continue
        for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
            if key in op.py_kernels:
                op.py_kernels[key] = _asking(op, key, op.py_kernels[key])
        op._dispatch_cache.clear()


def forget_chosen_kernels() -> None:
    """Of ops with kernels in Python: torch keeps the one that it took for an op in an earlier compile."""
    for op in _registered():
        op._dispatch_cache.clear()


def _registered() -> Iterator[OpOverload]:
    for name in torch.ops.aten:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if op.py_kernels:
                yield op


def _asking(op: OpOverload, key: DispatchKey, kernel: _Kernel) -> _Kernel:
    eager = _eager_key(op)

    @functools.wraps(kernel)  # whoever looks for the formula finds torch's
    def call(*args: Any, **kwargs: Any) -> Any:
        if current(KIND.name) is None or _draws(op, args, kwargs) or _allowed_composite(op):
            return kernel(*args, **kwargs)
        if eager is DispatchKey.Autograd and key is DispatchKey.CompositeImplicitAutograd:
            return NotImplemented  # `OpOverload.decompose` asks: the op stays
        return op._op_dk(eager, *args, **kwargs)

    return call


def _eager_key(op: OpOverload) -> DispatchKey:
    """Where eager's kernel is: the C++ composite, or the autograd kernel in front of the device's."""
    composite = DispatchKey.CompositeImplicitAutograd
    has_composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)
    return composite if has_composite else DispatchKey.Autograd
