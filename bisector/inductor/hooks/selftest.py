"""Does each hook still bite in this torch? Small programs, compiled to source with each kind denied, on a
device that has Triton code too; small scripts for what is decided outside of a graph.

Nothing is compiled by a C++ compiler or loaded, and Dynamo traces each program once. A kind passes if denying
all its decisions changes the source; a kind that a torch update broke shows here, at the start, and not as a
wrong answer later. A kind whose decisions need a setting (see `TestProgram.flags`) is tried only where the
subject has it. `split` and `cudagraph` are not tried: no CPU program comes to them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch._inductor.codecache import FxGraphCache
from torch.fx import GraphModule

from ...core import kinds
from ...core.decision import DecisionId
from ...core.kinds import Kind
from .. import compilation, control, source_capture
from ..control import Control
from . import guard, triton_cast, triton_fma, triton_math, triton_reduce

Inputs = list[torch.Tensor]
NEVER_ASKED = "the self-test's program never came to such a decision"
NO_EFFECT = "denying it changes nothing"
CHANGED = "listing the decisions changes the generated source"


@dataclass(frozen=True)
class TestProgram:
    """kinds: those that are denied in it, one after the other. run: the program, traced by Dynamo.

    settings: Inductor's, over the defaults. flags: settings of a subject without any of which it never comes
    to these kinds, so that the program is not needed; empty: always needed. train: a gradient is traced too.
    """

    kinds: tuple[Kind, ...]
    run: Callable[..., Any]
    inputs: Callable[[], Inputs]
    settings: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    train: bool = False


def _ones(*shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    return lambda: [torch.ones(*shape, dtype=torch.float32) for shape in shapes]


def _shifted(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    product = x * scale
    return product.amin(-1, keepdim=True) - product


def _low(x: torch.Tensor) -> torch.Tensor:
    return x.exp().half() + 1.7


def _reduced(x: torch.Tensor) -> torch.Tensor:
    return x[:, :4].sum(-1) * x.var(-1)


def _rewritten(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(F.silu(x), x) + (x + torch.zeros_like(x))


def _convolved(image: torch.Tensor) -> torch.Tensor:
    return F.conv2d(image, image)


def _stored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    first = torch.mm(w, x)  # computed last (reorder_for_locality), where the memory of `second` is free
    second = torch.mm(x, w)
    return torch.mm(torch.mm(second, x).tanh(), first)


def _bent(x: torch.Tensor) -> torch.Tensor:
    return (x.sigmoid() + 1).tanh().cos()


class _Weighted(torch.nn.Module):
    """An op and its weight, which freezing makes a constant."""

    def __init__(self, op: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.op = op
        self.weight = torch.nn.Parameter(torch.ones(*shape, dtype=torch.float32), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, self.weight)


_SCALAR = {"cpp.simdlen": 1}  # less code to generate
_TUNING = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP"}  # one choice: nothing is timed

PROGRAMS = (
    TestProgram(
        (kinds.LOWER, kinds.INLINE, kinds.FUSE, kinds.FMA), _shifted, _ones((32, 32), (32, 1)),
        # Without contraction there is no `fma` to deny.
        {"cpp.enable_floating_point_contract_flag": "fast"},
    ),
    TestProgram((kinds.CAST, kinds.CONST, kinds.VEC), _low, _ones((32, 32))),
    TestProgram((kinds.UNROLL, kinds.WELFORD), _reduced, _ones((32, 32)), _SCALAR),
    TestProgram((kinds.DECOMP, kinds.MATCH, kinds.CFOLD), _rewritten, _ones((32, 32)), _SCALAR),
    TestProgram((kinds.LAYOUT,), _convolved, _ones((2, 2, 4, 4)), _SCALAR),
    TestProgram((kinds.PASS, kinds.INPLACE, kinds.REUSE), _stored, _ones((32, 32), (32, 32)), _SCALAR),
    TestProgram((kinds.REMAT,), _bent, _ones((8, 8)), _SCALAR, train=True),
    TestProgram(
        (kinds.PREPACK,), _Weighted(F.conv2d, 4, 4, 3, 3), _ones((1, 4, 8, 8)), {**_SCALAR, "freezing": True},
        flags=("freezing",),
    ),
    TestProgram(
        (kinds.TEMPLATE,), _Weighted(F.linear, 64, 64), _ones((32, 64)), {**_TUNING, "freezing": True},
        flags=("max_autotune", "max_autotune_gemm"),
    ),
)  # fmt: skip
_FLAGS = frozenset(flag for program in PROGRAMS for flag in program.flags)


def flags_on(value: Callable[[str], Any]) -> frozenset[str]:
    """Of the Inductor settings that some kinds need those that are on; `value` reads one by its name."""
    return frozenset(flag for flag in _FLAGS if value(flag))


def run(flags: Collection[str] = _FLAGS) -> dict[str, str | None]:
    """For each kind tried None if its hook bites, else the reason why it must be switched off.

    flags: as of `flags_on`; a kind that cannot come without others is not tried.
    """
    found: dict[str, str | None] = {}
    for program in PROGRAMS:
        if not program.flags or set(flags) & set(program.flags):
            found |= _try(program)
    return found | control.disabled()


def _try(program: TestProgram) -> dict[str, str | None]:
    names = [kind.name for kind in program.kinds if kind.name not in control.not_taken]
    try:
        with _settings(program):
            source = _Source(program)
            listing = Control()
            base = source(listing)
            if base != source(None):
                return dict.fromkeys(names, CHANGED)
            return {name: _reason(name, listing, base, source) for name in names}
    except Exception as error:  # noqa: BLE001 - whatever a stale hook raises is the reason to report
        return dict.fromkeys(names, error_line(error))


def _reason(kind: str, listing: Control, base: str, source: Callable[[Control], str]) -> str | None:
    members = [decision.id for decision in listing.decisions() if decision.kind == kind]
    # A scalar loop has no vector operation left to deny, so the two halves of `vec` are tried separately.
    loops = [member for member in members if member.startswith("vec:loop")]
    others = [member for member in members if member not in loops]
    if not others:
        return NEVER_ASKED
    found = (why_ineffective(denied, base, source) for denied in (others, loops) if denied)
    return next((reason for reason in found if reason is not None), None)


def why_ineffective(members: Iterable[DecisionId], base: str, source: Callable[[Control], str]) -> str | None:
    """None if denying the members changes the source from `base`, else why their hook must be off."""
    try:
        changed = source(Control(members=members)) != base
    except Exception as error:  # noqa: BLE001 - whatever a stale hook raises is the reason to report
        return error_line(error)
    return None if changed else NO_EFFECT


def error_line(error: Exception) -> str:
    """Why a hook that raised this must be off."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


class _Source:
    """The digest of what a program compiles to, the graph being traced once."""

    def __init__(self, program: TestProgram) -> None:
        self.graph: GraphModule | None = None
        self.inputs = [x.requires_grad_(program.train) for x in program.inputs()]
        torch._dynamo.reset()
        torch.compile(program.run, backend=self._keep, dynamic=False)(*self.inputs)
        torch._dynamo.reset()

    def _keep(self, graph: GraphModule, _: Any) -> GraphModule:
        self.graph = graph
        return graph

    def __call__(self, active: Control | None) -> str:
        assert self.graph is not None
        graph = copy.deepcopy(self.graph)
        with nullcontext() if active is None else control.activate(active):
            sources = source_capture.source_only(
                lambda: compilation.compile_graph(graph, self.inputs, None, "inductor", {})
            )
        return source_capture.digest(sources)


@contextmanager
def _settings(program: TestProgram) -> Iterator[None]:
    with (
        torch.inference_mode(False),
        torch.set_grad_enabled(program.train),
        compilation.probe_caches(1),
        inductor_config.patch(dict(program.settings)),
    ):
        yield


# -- what is decided outside of a graph: a small script, or the one function that a hook patches -----------


def _graphs(active: Control, function: str = "plus_one") -> int:
    """How many graphs are compiled of a function that is called twice."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    names: dict[str, Any] = {}
    exec(_CODE, names)
    made = torch.compile(names[function], backend=backend)
    with control.activate(active):
        for number in (1, 2):
            with guard.running(guard.Running(function, number, lambda: "")):
                made(torch.ones(2))
    torch._dynamo.reset()
    return len(graphs)


def _steps(active: Control) -> int:
    """How many graphs are compiled of a function in which a call stands between two sums."""
    return _graphs(active, "doubled")


# Of a file that is none of ours: those are no part of the program.
_CODE: CodeType = compile(
    "def plus_one(x):\n    return x + 1\ndef doubled(x):\n    return (x + 1).mul(2) + 1\n",
    "selftest.py",
    "exec",
)


def _found(active: Control) -> int:
    """How many graphs a look-up finds in a cache that holds one."""
    entry = SimpleNamespace(guards_expr="")
    holds = mock.patch.object(FxGraphCache, "iterate_over_candidates", lambda *_: [(entry, b"", True)])
    uncounted = mock.patch.object(FxGraphCache, "_record_result", lambda *_, **__: None)
    with holds, uncounted, control.activate(active):
        graph, _, _ = FxGraphCache.find_guarded_entry("", True, None, lambda *_: True, [])
    return int(graph is not None)


SCRIPTS: Mapping[str, Callable[[Control], int]] = {
    kinds.GUARD.name: _graphs,
    kinds.STEP.name: _steps,
    kinds.FRAME.name: _graphs,
    kinds.CACHE.name: _found,
}


def run_on_scripts() -> dict[str, str | None]:
    """For each kind that is decided outside of a graph None if its hook bites, else the reason why it must be
    switched off."""
    return {kind: _reason_of_script(kind, script) for kind, script in SCRIPTS.items()} | control.disabled()


def _reason_of_script(kind: str, script: Callable[[Control], int]) -> str | None:
    try:
        rung = min(kinds.KINDS[kind].rungs)
        listing = Control(rung=rung, listed=(kind,))
        allowed = script(listing)
        members = [decision.id for decision in listing.decisions() if decision.kind == kind]
        if not members:
            return NEVER_ASKED
        return None if script(Control(members=members, rung=rung)) != allowed else NO_EFFECT
    except Exception as error:  # noqa: BLE001 - whatever a stale hook raises is the reason to report
        return error_line(error)


# -- the Triton backend, where a subject is on CUDA: the code is generated, not compiled -------------------


# Part -> how the IDs of its decisions begin.
_PARTS = {
    triton_fma.NAME: "fma:",
    triton_math.NAME: "vec:",
    triton_cast.NAME: "cast:",
    triton_reduce.NAME: "unroll:persistent",
}


def run_on_triton(make_inputs: Callable[[], Inputs] = lambda: _inputs()) -> dict[str, str | None]:
    """For each part of the Triton backend None if its hook bites, else the reason why it must be switched
    off."""
    off = control.disabled()
    with compilation.probe_caches(1):
        inputs, listing = make_inputs(), Control()
        base = _triton_source(listing, inputs)
        if base != _triton_source(None, inputs):
            return dict.fromkeys(_PARTS, CHANGED)
        reason = partial(_reason_on_triton, listing, base, inputs)
        return {part: off.get(part) or reason(start) for part, start in _PARTS.items()}


def _inputs() -> Inputs:
    return [torch.ones(32, 64, device="cuda"), torch.ones(32, 64, device="cuda")]


def _on_triton(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    decay = ((x * y).amax(-1, keepdim=True) - x * y).exp()
    half = (x / y).half()
    return decay.sum(-1), half, half.float() * 3


def _reason_on_triton(listing: Control, base: str, inputs: Inputs, start: str) -> str | None:
    members = [decision.id for decision in listing.decisions() if decision.id.startswith(start)]
    if not members:
        return NEVER_ASKED
    return why_ineffective(members, base, lambda denied: _triton_source(denied, inputs))


def _triton_source(active: Control | None, inputs: Inputs) -> str:
    torch._dynamo.reset()
    with nullcontext() if active is None else control.activate(active), torch.no_grad():
        sources = source_capture.source_only(lambda: torch.compile(_on_triton, dynamic=False)(*inputs))
    torch._dynamo.reset()
    return source_capture.digest(sources)
