"""What the client learns of the subject: its calls when it is loaded, a case's nodes when asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._inductor import cpp_builder, cpu_vec_isa
from torch._inductor.exc import InvalidCxxCompiler
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode

from ..core.backends import rung_of
from ..core.graphinfo import GraphInfo, NodeInfo
from ..core.model import Machine
from ..core.recorded import Recorded, RecordedCall
from . import naming, tensors, torch_state
from .capture.load import Loaded
from .capture.record import Call
from .dispatched_ops import DispatchedOps
from .equality import digest
from .execute import Subject
from .graph import arguments, edit, liveness

_OPS = {"placeholder": "input", "get_attr": "constant", "call_function": "call", "call_method": "call"}


def summary(loaded: Loaded) -> Recorded:
    """The recorded calls and how the script ended."""
    recorder = loaded.recorder
    return Recorded(
        calls=tuple(map(_recorded, recorder.calls)),
        scripted=loaded.scripted,
        skipped_calls=sum(graph.skipped_calls for graph in recorder.graphs),
        ended=loaded.ended,
        cut_short=loaded.cut_short,
        eager_disagrees=sum(c.asserted and not c.agreed for c in recorder.comparisons),
        notes=tuple(recorder.notes),
        machine=machine(),
        environment=recorder.environment or {},
        nothing=loaded.nothing,
        unseeded=recorder.unseeded,
        skipped_within=frozenset(recorder.skipped_within),
    )


def _recorded(call: Call) -> RecordedCall:
    entry = call.graph.entry
    return RecordedCall(
        index=call.index,
        graph=call.graph.index,
        entry=entry.name,
        nodes=sum(n.op.startswith("call") for n in call.graph.gm.graph.nodes),
        backward=bool(call.grad_outputs),
        tolerances=dict(call.tolerances),
        digest=digest(call.args),
        elements=sum(a.numel() for a in call.args if isinstance(a, torch.Tensor)),
        devices=tuple(sorted(call.devices())),
        settings=call.state.settings() | _named(entry.options),
        backend=rung_of(entry.backend),
        within=call.within,
        code=hashlib.sha256(call.graph.gm.code.encode()).hexdigest()[:16],
    )


def machine() -> Machine:
    """Versions and devices as torch sees them."""
    isa = str(cpu_vec_isa.pick_vec_isa() or "scalar") if has_compiler() else None
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return Machine(torch.__version__, torch.version.git_version, isa, gpu)


def has_compiler() -> bool:
    """Whether Inductor finds a C++ compiler: what it compiles for a GPU needs none."""
    try:
        cpp_builder.get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


def _named(options: dict[str, Any]) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {f"inductor.{key}": value for key, value in options.items() if isinstance(value, plain)}


def describe(subject: Subject) -> GraphInfo:
    """The nodes of the edited graph with the shapes that eager gives them, and its ATen calls."""
    gm = subject.edited.gm
    run = _Run(gm)
    torch_state.restore_rng(subject.call.state)
    given = tensors.fresh(subject.edited.args, subject.edited.requires_grad)
    try:
        run.run(*given)
    except Exception:
        if not subject.call.raised:
            raise  # else it is what is studied
        run = _without_values(gm, given, run.odd) or run
    nodes = tuple(_node(n, run) for n in gm.graph.nodes if n.op in _OPS)
    return GraphInfo(nodes, tuple(subject.edited.output_names()), tuple(run.calls), sum(run.parts.values()))


def _without_values(gm: torch.fx.GraphModule, given: Sequence[Any], odd: set[str]) -> _Run | None:
    """A run on shapes alone: what stands behind a node that raises for its values has a shape all the same,
    the one that the compiler sees. None where shapes alone make it raise.

    odd: as a run on values found it, since inputs come before all that raises.
    """
    run = _Run(gm)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        try:
            run.run(*(fake.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in given))
        except Exception:  # noqa: BLE001 - whatever the graph raises
            return None
    run.odd = odd
    return run


class _Run(torch.fx.Interpreter):
    """Remembers shape and dtype of every tensor result, and the ATen and prims calls of every node."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.seen: dict[str, tuple[tuple[int, ...], str]] = {}
        self.odd: set[str] = set()  # inputs that do not lie in memory as a new tensor does
        self.calls: list[str] = []
        self.parts: dict[str, int] = {}  # of a call, how many of its own compute

    def run_node(self, n: torch.fx.Node) -> Any:
        if isinstance(n.target, HigherOrderOperator):  # runs graphs of its own, some under no mode at all
            result = super().run_node(n)
            self.calls.append(str(n.target))
            self.parts[n.name] = 1
        else:
            with DispatchedOps() as ops:
                try:
                    result = super().run_node(n)
                finally:
                    self.calls += ops.names
                    self.parts[n.name] = ops.computing
        if isinstance(result, torch.Tensor):
            self.seen[n.name] = (tuple(result.shape), tensors.dtype_name(result.dtype))
            if n.op == "placeholder" and not tensors.lies_as_new(result):
                self.odd.add(n.name)
        return result


def _node(node: torch.fx.Node, run: _Run) -> NodeInfo:
    shape, dtype = run.seen.get(node.name, (None, None))
    target = (
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    )
    return NodeInfo(
        name=node.name,
        op=_OPS[node.op],
        target=target,
        reads=tuple(edit.node_arguments(node)),
        shape=shape,
        dtype=dtype,
        writes=liveness.mutates(node),
        integers=tuple(sorted(_integers(node))),
        parts=run.parts.get(node.name, 1),
        contiguous=node.name not in run.odd,
        where=naming.where_of(node),
        module=naming.module_of(node),
        optional=tuple((place, arguments.read_at(node, place)) for place in arguments.defaults(node)),
        numeric=tuple((place, arguments.read_at(node, place)) for place in arguments.numeric(node)),
    )


def _integers(node: torch.fx.Node) -> set[int]:
    """Integer constants among the arguments: sizes, maybe, that a smaller input needs changed."""
    if not node.op.startswith("call"):
        return set()
    leaves = torch.utils._pytree.tree_leaves((list(node.args), dict(node.kwargs)))
    return {v for v in leaves if type(v) is int}
