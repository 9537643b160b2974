"""What a script's compiled calls leave behind: Dynamo's graphs, their inputs and the settings around them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.utils._pytree as pytree
from torch._guards import TracingContext, tracing
from torch.fx.experimental.symbolic_shapes import SymT, symbol_is_type

from ...core.criterion import DTYPE_TOLERANCES, Criterion
from ...core.model import Tolerance
from .. import measure, tensors, torch_state
from .comparisons import Compared

# Calls kept for one graph: a training loop calls the same graph a thousand times, and the first calls
# already show whether it diverges; later ones are looked at only up to this number and memory.
CALLS_PER_GRAPH = 4
MEMORY_LIMIT = 4 << 30  # bytes of inputs that are kept over all calls, and more where there is room:
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
SHARE = 0.3  # of the memory that is free; a probe has a copy of its call's inputs, and its results


@dataclass
class Entry:
    """One use of torch.compile in the script: what was compiled, and how."""

    index: int
    name: str
    backend: str | Callable[..., Any]
    options: dict[str, Any]
    dynamic: bool | None


@dataclass
class GraphRecord:
    """One graph that Dynamo handed to the backend, with what a compile of it needs."""

    index: int
    entry: Entry
    gm: torch.fx.GraphModule
    example_inputs: list[Any]
    tracing_context: Any
    calls: list[Call] = field(default_factory=list)
    skipped_calls: int = 0


@dataclass(kw_only=True)
class GraphCall:
    """One run of a graph, as far as every recorder keeps it.

    index: its place among the calls of the recorder. args: copies of the inputs before it. grad_outputs: what
    came back to an output in the backward pass, by the output's index. raised: it did not return.
    """

    index: int
    args: list[Any]
    requires_grad: list[bool]
    grad_outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    raised: bool = False

    def keep_gradients(self, outputs: Sequence[Any]) -> None:
        """From now on what comes back to these outputs is kept in `grad_outputs`."""
        for index, output in enumerate(outputs):
            if isinstance(output, torch.Tensor) and output.requires_grad:
                output.register_hook(functools.partial(_keep_gradient, self.grad_outputs, index))


def _free(args: Sequence[Any]) -> int:
    """Bytes that are free where the tensors are, and so their copies will be."""
    if any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args):
        return int(torch.cuda.mem_get_info()[0])
    available = _AVAILABLE.search(Path("/proc/meminfo").read_text())
    return int(available[1]) << 10 if available else 0


def _keep_gradient(kept: dict[int, torch.Tensor], index: int, grad: torch.Tensor) -> None:
    if index not in kept:
        kept[index] = grad.detach().clone()  # autograd may make its memory a leaf's `.grad`, and add to it


@dataclass(kw_only=True)
class Call(GraphCall):
    """One run of a script's graph.

    within: the call of a compiled function that ran it, by its place. originals: the caller's own tensors,
    whose `.grad` a script compares; versions: how often each had been written to. tolerances: the script's
    own, by path.
    """

    graph: GraphRecord
    within: int
    state: torch_state.TorchState
    originals: list[Any] = field(default_factory=list)
    versions: list[int | None] = field(default_factory=list)
    output_ids: list[int] = field(default_factory=list)
    output_storages: list[int] = field(default_factory=list)
    tolerances: dict[str, tuple[Tolerance, ...]] = field(default_factory=dict)

    def input_names(self) -> list[str]:
        """Names of the graph's inputs, in the order of `args`."""
        return [n.name for n in self.graph.gm.graph.nodes if n.op == "placeholder"]

    def devices(self) -> set[str]:
        """Types of the devices (`cpu`, `cuda`) that the inputs and the values of the graph are on."""
        values = [*self.args, *(n.meta.get("example_value") for n in self.graph.gm.graph.nodes)]
        return {value.device.type for value in values if isinstance(value, torch.Tensor)}

    def setting(self, name: str) -> Any:
        """The value of a flag around the call, by the name users write; None where this torch has no such
        flag. Options of torch.compile are Inductor's settings for the one function."""
        family, _, key = name.partition(".")
        if family == "inductor" and key in self.graph.entry.options:
            return self.graph.entry.options[key]
        current = torch_state.current_flag(name) if torch_state.has_flag(name) else None
        return self.state.configs.get(family, {}).get(key, current)

    def put_back_originals(self) -> None:
        """Give the caller's tensors what they held at the call, where the script has changed them since: the
        compiler looks at them (at a dtype; with freezing, at values), not at the copies."""
        originals = zip(self.originals, self.versions, self.args, strict=True)
        changed = [at for at, (o, version, kept) in enumerate(originals) if _has_changed(o, version, kept)]
        copies = tensors.snapshot(self.args) if changed else []
        for at in changed:
            self.originals[at].data = copies[at]

    def original_args(self) -> list[tuple[str, Any]]:
        """(input name, the caller's tensor or None): leaves whose gradient a script may look at."""
        pairs = zip(self.input_names(), self.originals, strict=True)
        return [(n, o if isinstance(o, torch.Tensor) and o.is_leaf else None) for n, o in pairs]

    def paths(self, tensor: torch.Tensor) -> list[str]:
        """What the tensor is to this call: `output[0]`, a view of it, `grad[x]`; none where it is neither."""
        if id(tensor) in self.output_ids:
            return [f"output[{self.output_ids.index(id(tensor))}]"]
        for name, original in self.original_args():
            if original is not None and original.grad is tensor:
                return [f"grad[{name}]"]
        storage = _storage_of(tensor)
        if storage and storage in self.output_storages:
            return [f"output[{self.output_storages.index(storage)}]"]
        return []


@dataclass(frozen=True)
class Comparison:
    """One comparison that the script made after a compiled call.

    tolerance: as it was given, or None; default: that of the dtype. matched: (call, output path) of the
    compiled outputs and gradients among what was compared. agreed: the comparison's own answer, on
    outputs that were computed in eager; asserted: it raises where they do not agree. of_two_runs: its two
    sides are equal but for rounding, as those of a comparison of eager with compiled are where all graphs run
    in eager: one of a value before and after a step, or of a mean with zero, says nothing of what compiled
    may differ by.
    """

    tolerance: Tolerance | None
    default: Tolerance
    matched: list[tuple[Call, str]]
    agreed: bool
    asserted: bool = False
    of_two_runs: bool = True


class Recorder:
    """Collects calls; `backend(entry)` is the Dynamo backend that runs the graph in eager and records it."""

    def __init__(self) -> None:
        self.start: dict[str, dict[str, Any]] = {}
        self.dynamic: bool | None = None
        self.entries: list[Entry] = []
        self.graphs: list[GraphRecord] = []
        self.calls: list[Call] = []
        self.comparisons: list[Comparison] = []
        self.kept = tensors.KeptStorages()
        self.too_large = 0  # bytes of the smallest inputs for which there was no room
        self.notes: list[str] = []
        self.seeded: set[str] = set()  # the libraries whose generators the script seeded
        self.unseeded = False  # it drew random numbers, and nobody set one
        self.environment: dict[str, str] | None = None  # what the script set before it imported torch
        self.made = 0  # calls of what torch.compile returned
        self.wanted: int | None = None  # which of them is kept whatever was kept before
        self.skipped_within: set[int] = set()  # those that ran a graph of which the call was not kept
        self.alive: list[Any] = []  # outputs are matched by id(): they must not be freed meanwhile

    def begin(self, dynamic: bool | None, wanted: int | None = None) -> None:
        """In the script's thread, before its first line: what the settings were (they belong to a thread).

        dynamic: overrides what the script says of dynamic shapes; None leaves it to the script. wanted: the
        place, among the calls of compiled functions, of one whose graphs' calls are kept in any case.
        """
        self.dynamic = dynamic
        self.wanted = wanted
        self.start = torch_state.config_values()

    def entry(self, name: str, backend: Any, options: dict[str, Any], dynamic: Any) -> Entry:
        found = Entry(len(self.entries), name, backend, options, dynamic)
        self.entries.append(found)
        return found

    def counted(self, name: str, function: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call what torch.compile returned, counting."""
        self.made += 1
        return function(*args, **kwargs)

    def backend(self, entry: Entry) -> Callable[..., Any]:
        def record_graph(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            context = torch._guards.TracingContext.try_get()
            if entry.backend == "inductor" and context is not None:
                _restart_as_the_compiler_would(gm, example_inputs, context)
            graph = GraphRecord(len(self.graphs), entry, gm, list(example_inputs), context)
            self.graphs.append(graph)

            def run(*args: Any) -> Any:
                call = self._begin(graph, args)
                # By the nodes, not by the generated code: the two differ for a negative literal's power.
                try:
                    outputs = torch.fx.Interpreter(gm).run(*args)
                except Exception:
                    if call is not None:
                        call.raised = True
                    raise
                if call is not None:
                    self._end(call, outputs)
                return outputs

            return run

        return record_graph

    def _begin(self, graph: GraphRecord, args: tuple[Any, ...]) -> Call | None:
        within = self.made - 1
        many = len(graph.calls) >= CALLS_PER_GRAPH and within != self.wanted
        if many or not self._has_room(args):
            graph.skipped_calls += 1
            self.skipped_within.add(within)
            return None
        call = Call(
            index=len(self.calls),
            graph=graph,
            within=within,
            args=tensors.snapshot(args, self.kept),
            requires_grad=tensors.grad_flags(args),
            state=torch_state.take(self.start),
            originals=list(args),
            versions=list(map(_version_of, args)),
        )
        graph.calls.append(call)
        self.calls.append(call)
        return call

    def _has_room(self, args: Sequence[Any]) -> bool:
        """Whether the inputs that are kept may grow by these."""
        if self.kept.bytes + tensors.nbytes(args) <= MEMORY_LIMIT:
            return True
        missing = self.kept.missing(args)
        if missing <= SHARE * _free(args):
            return True
        self.too_large = min(missing, self.too_large or missing)
        return False

    def _end(self, call: Call, outputs: Any) -> None:
        flat = tensors.as_list(outputs)
        self.alive.append(flat)
        call.output_ids = [id(o) for o in flat]
        call.output_storages = [_storage_of(o) for o in flat]
        call.keep_gradients(flat)

    def compared(self, comparison: Compared) -> bool:
        """The script has made a comparison; of no interest before its first compiled call. After that one
        which fails lets the script go on, so that its later calls are recorded."""
        if self.calls and not comparison.refused:
            found = pytree.tree_leaves(comparison.values)
            leaves = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
            matched = [(call, path) for leaf in leaves for call in self.calls for path in call.paths(leaf)]
            defaults = [_default_tolerance(leaf) for leaf in leaves]
            default = max(defaults, default=(0.0, 0.0))  # assert_close takes the looser dtype's of a pair
            self.comparisons.append(Comparison(
                comparison.tolerance, default, matched, comparison.agreed, comparison.raised,
                _are_equal_but_for_rounding(comparison.sides()),
            ))  # fmt: skip
        return not self.calls


_BY_DTYPE = Criterion()


def _are_equal_but_for_rounding(sides: tuple[Any, Any] | None) -> bool:
    """False where the two are not known to be."""
    pairs = list(zip(*map(pytree.tree_leaves, sides), strict=False)) if sides is not None else []
    return bool(pairs) and all(_is_equal_but_for_rounding(one, two) for one, two in pairs)


def _is_equal_but_for_rounding(one: Any, two: Any) -> bool:
    if one is two and isinstance(one, torch.Tensor):
        return False
    try:
        found = measure.compare(0, "", one, two)
    except Exception:  # noqa: BLE001 - a subclass may refuse anything, and the script must not see it
        return False
    return found is None or _BY_DTYPE.divergence(replace(found, dtype_compiled=None)) is None


def _version_of(value: Any) -> int | None:
    """How often a tensor was written to; None for what is none, or counts no writes."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def _has_changed(original: Any, version: int | None, kept: Any) -> bool:
    """Whether a plain tensor is not what was kept of it; version: that of the moment when it was kept."""
    if version is None or type(original) not in (torch.Tensor, torch.nn.Parameter):
        return False
    same = (original.dtype, original.shape, original.device) == (kept.dtype, kept.shape, kept.device)
    return not same or original._version != version


def _default_tolerance(tensor: torch.Tensor) -> Tolerance:
    return DTYPE_TOLERANCES.get(tensors.dtype_name(tensor.dtype), (0.0, 0.0))


def _storage_of(value: Any) -> int:
    """Address of a tensor's storage, 0 where there is none: views of one output are that output."""
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return value.untyped_storage().data_ptr()
    return 0


class _Traced(Exception):
    """Tracing has come to its end without a restart."""


def _restart_as_the_compiler_would(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], context: TracingContext
) -> None:
    """Raises what AOTAutograd raises for a float that cannot stay a symbol, so that Dynamo makes it a
    constant and begins anew (torch/fx/passes/_tensorify_python_scalars.py): the graph that comes in the end
    is recorded. Asked where there is such a symbol alone: of a Python float or a scalar in float64."""
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
