"""What a job may change in its process, as it was when the script had run; put back before the next job.

For a process that cannot fork. A compile rewrites the captured graph in place, adds guards to its dynamic
shapes, registers fallbacks for the whole process and fills caches whose keys lack what a probe varies.
Exercised on a CPU with torch 2.13, where answers, IDs and generated code are those of forked jobs, and on an
H200 with torch 2.11.
"""

from __future__ import annotations

import copy
import gc
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch._dynamo.utils
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._inductor import async_compile, decomposition, lowering, metrics
from torch._inductor.codecache import PyCodeCache

from ...errors import first_line
from .. import control, torch_state
from ..capture.load import Loaded
from ..capture.record import GraphRecord
from ..flags import fix_trials
from ..generators import Generators

_CONTAINERS, _LOCKS = "tree_manager_containers", "tree_manager_locks"  # as cudagraph_trees.py calls them


class Pristine:
    """The state of the process after the script, and of what the script's calls left for a compile."""

    def __init__(self, loaded: Loaded) -> None:
        self.settings = torch_state.take(loaded.recorder.start)
        self.configs = torch_state.config_values()
        self.environ = dict(os.environ)
        self.generators = Generators()
        self.disabled = control.disabled()
        self.lowerings = dict(lowering.lowerings)
        self.decompositions = dict(decomposition.decompositions)
        self.kernels = Attributes(kernel_side_table)
        self.libdevice = _libdevice_path()
        self.graphs = [_GraphState(graph) for graph in loaded.recorder.graphs]

    def restore(self) -> None:
        """In the thread of the next job."""
        _give_graphs_manager()
        torch._dynamo.reset()
        self.kernels.restore()  # a reset forgets the user's own Triton kernels, which the graphs name
        async_compile.CompiledTritonKernels.cache_clear()  # by source: knows nothing of libdevice
        _forget_generated()
        torch._dynamo.utils.counters.clear()
        metrics.reset()
        _put_back(os.environ, self.environ)
        _set_libdevice_path(self.libdevice)
        control.set_disabled(self.disabled)
        _undo_fallbacks(self.lowerings)
        _put_back(decomposition.decompositions, self.decompositions)
        fix_trials.forget_copies()
        for graph in self.graphs:
            graph.restore()
        # Where the values of a config module belong to the process, not to a thread (before torch 2.12).
        torch_state.reset(self.configs)
        torch_state.restore(self.settings)
        self.generators.put_back()

    def release(self) -> str | None:
        """Free what the job held on the device. The reason why no other job can run here, else None."""
        gc.collect()
        if not torch.cuda.is_initialized():
            return None
        try:
            torch.cuda.synchronize()  # an error of a kernel shows here at the latest, and stays
            torch.cuda.empty_cache()
        except RuntimeError as error:
            return first_line(error)
        return None


def _give_graphs_manager() -> None:
    """In torch 2.11 a thread that neither imported the trees of CUDA graphs nor is one of autograd has no
    place for theirs, and an assertion of torch fails when they are recorded."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is None or hasattr(trees, "_initialize_tls") or hasattr(trees.local, _CONTAINERS):
        return
    setattr(trees.local, _CONTAINERS, {})
    setattr(trees.local, _LOCKS, defaultdict(threading.Lock))
    for name in (_CONTAINERS, _LOCKS):  # threads of autograd get the same
        torch._C._stash_obj_in_tls(name, getattr(trees.local, name))


def _forget_generated() -> None:
    """Modules of generated code hold the constants of a frozen graph, in memory or on the device."""
    for module in PyCodeCache.modules:
        if sys.modules.get(module.__name__) is module:
            del sys.modules[module.__name__]
    PyCodeCache.cache_clear()


class Attributes:
    """The attributes of an object, and the containers among them two levels deep."""

    def __init__(self, owner: Any, renewed: Iterable[str] = ()) -> None:
        """renewed: counters that caches take for versions; they never return to an earlier value."""
        self.owner = owner
        self.renewed = [name for name in renewed if hasattr(owner, name)]
        self.values = {name: _copied(value, 2) for name, value in vars(owner).items()}

    def restore(self) -> None:
        versions = {name: getattr(self.owner, name) + 1 for name in self.renewed}
        vars(self.owner).clear()
        vars(self.owner).update({name: _copied(value, 2) for name, value in self.values.items()} | versions)


class _GraphState:
    """One captured graph with Dynamo's tracing context, which a compile writes to."""

    def __init__(self, record: GraphRecord) -> None:
        self.gm = record.gm
        self.graph = _graph_copy(record.gm.graph)
        self.module = {n: _copied(v, 2) for n, v in vars(record.gm).items() if n != "_graph"}
        self.record, self.inputs = record, list(record.example_inputs)
        context = record.tracing_context
        self.context: list[Attributes] = []
        if context is not None:
            self.context = [Attributes(context), Attributes(context.guards_context)]
            shapes = getattr(context.fake_mode, "shape_env", None)
            if shapes is not None:
                versions = ("_version_counter", "_replacements_version_counter")
                self.context.append(Attributes(shapes, versions))

    def restore(self) -> None:
        vars(self.gm).update({name: _copied(value, 2) for name, value in self.module.items()})
        self.gm.graph = _graph_copy(self.graph)
        self.record.example_inputs = list(self.inputs)
        for part in self.context:
            part.restore()


def _graph_copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    """The nodes anew, not the tensors that they refer to, with the attributes that Dynamo sets on nodes."""
    copied = copy.deepcopy(graph)
    for old, new in zip(graph.nodes, copied.nodes, strict=True):
        for name, value in vars(old).items():
            if name not in vars(new):
                setattr(new, name, value)
    return copied


def _copied(value: Any, depth: int) -> Any:
    """A copy of a plain container and of the containers in it; anything else is itself."""
    if depth == 0 or not isinstance(value, (dict, list, set)):
        return value
    other = copy.copy(value)
    if isinstance(other, dict):
        for key in other:
            other[key] = _copied(other[key], depth - 1)
    elif isinstance(other, list):
        other[:] = [_copied(item, depth - 1) for item in other]
    return other


def _put_back(now: Any, before: Mapping[Any, Any]) -> None:
    for name in set(now) - set(before):
        del now[name]
    for name, value in before.items():
        if now.get(name) != value:
            now[name] = value


def _undo_fallbacks(before: Mapping[Any, Any]) -> None:
    """Takes back what `make_fallback` registered (torch/_inductor/lowering.py); no other lowering."""
    for op, lower in list(lowering.lowerings.items()):
        old = before.get(op)
        if lower is old or not getattr(lower, "_is_fallback_handler", False):
            continue
        lowering.fallbacks.discard(op)  # type: ignore[arg-type]
        lowering.needs_realized_inputs.discard(op)  # type: ignore[arg-type]
        if old is None:
            del lowering.lowerings[op]
        else:
            lowering.lowerings[op] = old


def _libdevice_path() -> str | None:
    """Where Triton looks for libdevice; a compile with PyTorch's own sets it for the whole process."""
    knobs = sys.modules.get("triton.knobs")
    return None if knobs is None else knobs.nvidia.libdevice_path


def _set_libdevice_path(path: str | None) -> None:
    knobs = sys.modules.get("triton.knobs")
    if knobs is not None and knobs.nvidia.libdevice_path != path:
        knobs.nvidia.libdevice_path = path
