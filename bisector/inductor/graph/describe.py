"""What the client is told of the subject: its calls when it is loaded, a case's nodes when asked."""

from __future__ import annotations

import traceback
from typing import Any

import torch
import torch.fx
from torch._inductor import cpu_vec_isa
from torch.fx.experimental.proxy_tensor import make_fx

from .. import ambient, naming, tensors
from ..capture.load import Loaded
from ..execute import Subject
from . import edit, liveness

_OPS = {"placeholder": "input", "get_attr": "constant", "call_function": "call", "call_method": "call"}


def summary(loaded: Loaded) -> dict[str, Any]:
    """The recorded calls and how the script ended, as JSON."""
    recorder = loaded.recorder
    calls = [
        {
            "index": call.index,
            "graph": call.graph.index,
            "entry": call.graph.entry.name,
            "nodes": sum(n.op.startswith("call") for n in call.graph.gm.graph.nodes),
            "backward": bool(call.grad_outputs),
            "tolerances": {k: list(v) for k, v in call.tolerances.items()},
            "digest": tensors.digest(call.args),
            "elements": sum(a.numel() for a in call.args if isinstance(a, torch.Tensor)),
            "devices": sorted(call.devices()),
            "settings": call.ambient.settings() | _named(call.graph.entry.options),
            "backend": call.graph.entry.backend if isinstance(call.graph.entry.backend, str) else "custom",
        }
        for call in recorder.calls
    ]
    disagreed = [c for c in loaded.comparisons.seen if not c.agreed]
    return {
        "calls": calls,
        "scripted": loaded.scripted,
        "skipped_calls": sum(graph.skipped_calls for graph in recorder.graphs),
        "ended": loaded.ended,
        "eager_disagrees": len(disagreed),
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Versions and devices as torch sees them."""
    isa = cpu_vec_isa.pick_vec_isa()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "isa": str(isa) if isa else "scalar",
        "gpu": gpu,
    }


def _named(options: dict[str, Any]) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {f"inductor.{key}": value for key, value in options.items() if isinstance(value, plain)}


def describe(subject: Subject) -> dict[str, Any]:
    """The nodes of the edited graph with the shapes that eager gives them, and its ATen calls."""
    gm = subject.edited.gm
    values = _Shapes(gm)
    ambient.restore_rng(subject.call.ambient)
    values.run(*tensors.fresh(subject.edited.args, subject.edited.requires_grad))
    return {
        "nodes": [_node(n, values.seen) for n in gm.graph.nodes if n.op in _OPS],
        "outputs": subject.edited.output_names(),
        "aten": aten_calls(subject),
    }


class _Shapes(torch.fx.Interpreter):
    """Remembers shape and dtype of every tensor result."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.seen: dict[str, tuple[list[int], str]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.seen[n.name] = (list(result.shape), tensors.dtype_name(result.dtype))
        return result


def _node(node: torch.fx.Node, seen: dict[str, tuple[list[int], str]]) -> dict[str, Any]:
    shape, dtype = seen.get(node.name, (None, None))
    target = (
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    )
    return {
        "name": node.name,
        "op": _OPS[node.op],
        "target": target,
        "reads": edit.node_arguments(node),
        "shape": shape,
        "dtype": dtype,
        "writes": liveness.mutates(node),
        "integers": sorted(_integers(node)),
        "where": naming.where_of(node),
    }


def _integers(node: torch.fx.Node) -> set[int]:
    """Integer constants among the arguments: sizes, maybe, that a smaller input needs changed."""
    if not node.op.startswith("call"):
        return set()
    leaves = torch.utils._pytree.tree_leaves((list(node.args), dict(node.kwargs)))
    return {v for v in leaves if type(v) is int}


def aten_calls(subject: Subject) -> list[str]:
    """The functional ATen and prims calls of the forward graph, composites that eager has kernels for whole.

    Casts are named as Inductor names them (`prims.convert_element_type`); views are counted too.
    """
    args = tensors.snapshot(subject.edited.args)
    casts = {torch.ops.aten._to_copy.default: _convert}
    try:
        with torch.no_grad():
            traced = make_fx(
                torch.func.functionalize(lambda *a: subject.edited.gm(*a)), decomposition_table=casts
            )(*args)
    except Exception:  # noqa: BLE001 - a graph that cannot be traced this way is counted by its own calls
        traceback.print_exc()
        return [str(n.target) for n in subject.edited.gm.graph.nodes if n.op.startswith("call")]
    traced.graph.eliminate_dead_code()
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    ops = [t for t in targets if isinstance(t, torch._ops.OpOverload)]
    return [f"{op.namespace}.{op._schema.name.split('::')[1]}" for op in ops if op is not _DETACH]


_DETACH = torch.ops.aten.detach.default


def _convert(x: torch.Tensor, *, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    if dtype is None or x.dtype == dtype:
        return NotImplemented
    return torch.ops.prims.convert_element_type.default(x, dtype)
