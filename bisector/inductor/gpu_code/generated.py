"""The Triton kernels that Inductor generates of a captured call for a pretended device, and what each of
their variables computes.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch
from torch._guards import TracingContext
from torch._inductor.codegen.triton import TritonScheduling
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ...core.decision import DecisionId
from .. import compilation, naming, source_capture
from ..capture.record import Call
from ..control import Control, activate
from ..hooks import cpp_ops, triton_ops
from . import pretended
from .machine_code import FILE

KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str", re.DOTALL)


@dataclass(frozen=True)
class Value:
    """What a variable of a kernel computes. node: the call of the graph, and handle: one word for it, as in
    decision IDs; op: of the loop body (`mul`, `truediv`); where: the user's `file:line`."""

    node: str
    handle: str
    op: str
    where: str


@dataclass(frozen=True)
class Kernel:
    """values: by variable; of a variable that the code generator made for itself there is none."""

    name: str
    source: str
    values: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratedCode:
    kernels: list[Kernel]
    decisions: list[DecisionId]


_values: WeakKeyDictionary[Any, dict[str, Value]] = WeakKeyDictionary()  # by kernel, while it is written


def of_call(
    call: Call, denied: tuple[str, ...] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> GeneratedCode:
    """The forward graph with the call's shapes, on the device. denied: decisions; settings: Inductor's."""
    triton_ops.install()
    triton_ops.add_rule(_note)
    gm = _moved(copy.deepcopy(call.graph.gm))
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    control = Control(members=denied)
    by_name: dict[str, dict[str, Value]] = {}
    with mode, torch.no_grad(), _named(by_name):
        args = [_on_device(arg) for arg in call.args]
        with pretended.settings(**settings), pretended.visible(), activate(control):
            sources = source_capture.source_only(
                lambda: compilation.compile_graph(gm, args, TracingContext(mode), "inductor", {})
            )
    kernels = [Kernel(n, s, by_name.get(n, {})) for n, s in KERNEL.findall("\n".join(sources))]
    return GeneratedCode(kernels, [decision.id for decision in control.decisions()])


def compiled(source: str, folder: Path) -> str:
    """The PTX of one kernel, for its first configuration."""
    ptx: str = assembly(source, folder)["ptx"]
    return ptx


def assembly(source: str, folder: Path) -> Mapping[str, Any]:
    """What Triton makes of one kernel, for its first configuration: its `ptx` and `cubin` among others. Lines
    are those of a file named FILE: Triton keeps this by what is compiled, under the name of the file that had
    it first."""
    from torch._inductor.runtime import triton_helpers

    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = folder / digest / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"kernel_{digest}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with (
        mock.patch.object(triton_helpers, "set_driver_to_gpu", lambda: None),
        pretended.settings(),
        pretended.visible(),
    ):
        spec.loader.exec_module(module)
        kernel = next(made for made in vars(module).values() if hasattr(made, "compile_results"))
        kernel.precompile(warm_cache_only=True)
    made: Mapping[str, Any] = kernel.compile_results[0].kernel.asm
    return made


def _on_device(arg: Any) -> Any:
    if not isinstance(arg, torch.Tensor):
        return arg
    return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device="cuda")


def _moved(gm: GraphModule) -> GraphModule:
    """With the pretended device wherever the graph names one."""

    def device(value: Any) -> Any:
        return torch.device("cuda", 0) if isinstance(value, torch.device) else value

    for node in gm.graph.nodes:
        node.args = torch.fx.node.map_aggregate(node.args, device)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, device)
    gm.recompile()
    return gm


def _note(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    """A rule of `triton_ops` that changes nothing."""
    written = write(op)
    if op.tag is not None:
        node: Node = op.tag.node
        value = Value(naming.node_name(node), naming.handle(node), op.name, naming.where_of(node))
        _values.setdefault(op.kernel, {})[str(written)] = value
    return written


@contextmanager
def _named(by_name: dict[str, dict[str, Value]]) -> Iterator[None]:
    """Files the values of each kernel under its name."""
    original: Callable[..., str] = TritonScheduling.define_kernel

    def define_kernel(self: Any, source: Any, schedule: Any, kernel: Any, *more: Any, **named: Any) -> str:
        name = original(self, source, schedule, kernel, *more, **named)
        by_name[name] = dict(_values.get(kernel, {}))
        return name

    with mock.patch.object(TritonScheduling, "define_kernel", define_kernel):
        yield
