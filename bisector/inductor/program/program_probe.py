"""A probe of the whole program: the script runs in a forked child that has torch and nothing of the script's,
with a candidate's decisions denied in each compile, and what it gives is measured against the run with
compilation off.
"""

from __future__ import annotations

import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import torch
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._guards import CompileContext
from torch._inductor.codecache import FxGraphCache

from ... import wire
from ...core import kinds
from ...core.backends import INDUCTOR, OWN
from ...core.case import WHOLE, Case
from ...core.criterion import Criterion
from ...core.decision import Decision, DecisionId
from ...core.fix_source import arguments_among
from ...core.kinds import KINDS
from ...core.messages import ProgramOptions
from ...core.model import Base, Candidate, Json, Measurement
from ...core.printed import MOST_LINES, digest_of_rest
from ...core.program import (
    KEPT,
    OFF,
    CompiledCall,
    Mode,
    PlainRun,
    WatchOptions,
    with_events,
    without_its_own_words,
)
from ...core.protocol import CannotAnswer
from ...core.reuse import Reuse
from ...core.script_text import without
from ...core.shown import not_compared, outputs_of
from ...core.steps import Step
from .. import compilation, control, torch_state
from ..capture.compile_stand_ins import of_compile_fx
from ..control import Control
from ..equality import digest
from ..execute import COMPILERS
from ..main_module import execute
from ..probing import measurement_of
from . import run_script, watch
from .reuse import Calls, Explained

_BREAKING = (kinds.FRAME.name, kinds.STEP.name, kinds.GUARD.name)
_OF_CALLS = frozenset(kind.name for kind in KINDS.values() if kind.of_calls)


class Graphs:
    """The graphs of a script by number, from 1 on in the order in which a backend was given them.

    The backward graph has the forward's number: autograd compiles it under the same compile ID
    (torch/_functorch/_aot_autograd/runtime_wrappers.py), whenever it comes to it. After
    `torch._dynamo.reset()` another graph has an equal ID, but not the same object.
    """

    def __init__(self) -> None:
        self._known: list[object] = []

    def current(self) -> int:
        """The number of the graph that is being compiled."""
        compiling = CompileContext.current_compile_id()
        for number, known in enumerate(self._known, 1):
            if known is compiling:
                return number
        self._known.append(compiling)
        return len(self._known)


class _ProgramControl(Control):
    """Its decisions are distinguished by the graph that they are taken in. Hooks ask with the IDs of one
    graph; here they are `g2/fma:sub@mul_1`, with the graph's number.

    rung: the backend that the script is run with.
    """

    def __init__(
        self,
        graphs: Graphs,
        rung: str,
        base: Base = Base.DEFAULT,
        members: Iterable[str] = (),
        listed: Iterable[str] = (),
    ) -> None:
        super().__init__(base, members, rung, listed)
        self._graphs = graphs

    def _named(self, decision_id: DecisionId) -> DecisionId:
        if decision_id.kind in _OF_CALLS:
            return decision_id
        return decision_id.in_graph(self._graphs.current())

    def allows(self, decision_id: DecisionId) -> bool:
        return super().allows(self._named(decision_id))

    def take(self, decision: Decision) -> bool:
        named = replace(decision, id=self._named(decision.id))
        self._seen.setdefault(named.id, named)
        return super().allows(named.id)

    def refuses(self, decision: Decision) -> bool:
        if self.allows(decision.id):
            return False
        if self._named(decision.id) in self.members:
            self.take(decision)
        return True

    def denied(self, decision_id: DecisionId) -> bool:
        named = self._named(decision_id)
        return named in self._seen and not super().allows(named)


class _Left(BaseException):
    """The script has ended its process."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def probe(options: ProgramOptions, candidate: Candidate, case: Case = WHOLE) -> Measurement:
    """Run the script once in this process, which is good for nothing afterwards. Of a case its graphs, its
    calls, its end and the statements that it leaves out are obeyed: a script has nothing else."""
    started = time.perf_counter()
    if case.left_out:
        options = _measured_alike(options, case)
    eager = wire.load(PlainRun, json.loads((Path(options.folder) / KEPT).read_text(encoding="utf-8")))
    compiled, decisions, without_effect = _compiled(options, candidate, case)
    if without_effect:
        return Measurement(error=without_effect)
    if options.values_alone:
        compiled = without_its_own_words(compiled)
    lines = options.lines
    if case.until is not None:
        eager, compiled, lines = eager.up_to(case.until), compiled.up_to(case.until), ()
    found = measurement_of(Measurement(outputs_of(eager, compiled, lines=lines)), decisions, "")
    unseen, same = not_compared(eager, compiled), len(compiled.calls)
    return replace(found, seconds=time.perf_counter() - started, unseen=unseen, same=same)


def _measured_alike(options: ProgramOptions, case: Case) -> ProgramOptions:
    """The options with the values that the case has with compilation off, without its statements. Of what it
    prints nothing counts: its lines have other numbers. Raises CannotAnswer where it cannot be run."""
    folder = Path(options.folder) / f"without {digest(case.left_out)}"
    if not folder.exists():
        if torch.cuda.is_initialized():
            raise CannotAnswer("a process that has used CUDA cannot be forked")
        made = tempfile.mkdtemp(dir=options.folder)
        child = os.fork()
        if child == 0:
            _keep_in_eager(replace(options, folder=made), case)
        _, status = os.waitpid(child, 0)
        if status:
            raise CannotAnswer("with compilation off, the script without these statements was not run")
        with suppress(OSError):  # a probe beside this one was first
            os.rename(made, folder)
    return replace(options, folder=str(folder), lines=())


def _keep_in_eager(options: ProgramOptions, case: Case) -> NoReturn:
    """In a child of its own: run the script with compilation off, and keep its values."""
    leave, status = os._exit, 1
    try:
        os.environ.update(OFF)
        dynamo_config.disable = True  # torch has been imported
        torch.set_num_threads(options.threads)
        run = _run(options, case, {}, None, Mode.EAGER)
        (Path(options.folder) / KEPT).write_text(json.dumps(wire.dump(run)), encoding="utf-8")
        status = 0
    finally:
        leave(status)


def explain_reuse(
    options: ProgramOptions, case: Case, numbers: Sequence[int], criterion: Criterion
) -> tuple[Reuse, ...]:
    """Of calls, by their numbers from 1, that run what an earlier call compiled: why they give something else
    than eager. As for `probe`, the script runs once in this process."""
    explained = Explained(numbers, criterion)
    _compiled(options, Candidate(), case.with_end(max(numbers) - 1), explained)
    return tuple(explained.found)


def list_steps(options: ProgramOptions, case: Case) -> tuple[Step, ...]:
    """The steps that Dynamo traces. As for `probe`, the script runs once in this process."""
    _, decisions, _ = _compiled(options, Candidate(), case, listed=(kinds.STEP.name,))
    found = decisions.decisions() if decisions is not None else ()
    return tuple(decision for decision in found if isinstance(decision, Step))


def _compiled(
    options: ProgramOptions,
    candidate: Candidate,
    case: Case,
    explained: Explained | None = None,
    listed: Iterable[str] = (),
) -> tuple[PlainRun, Control | None, str]:
    """A run of the script, the decisions that were taken, and why a flag has no effect; empty where all have
    one. explained: what explains calls of it; listed: as of Control."""
    hooked = candidate.needs_hooks or not candidate.flags
    graphs = Graphs()
    asked = candidate.base, candidate.members, listed
    decisions = _ProgramControl(graphs, options.rung, *asked) if hooked else None
    torch.set_num_threads(options.threads)
    compilation.decompositions_as_they_are()
    flags = {**options.config, **dict(candidate.flags)}
    if decisions is not None and decisions.denies(kinds.GUARD.name):
        flags = _WITHOUT_LIMIT | flags
    without_effect: list[str] = []
    with (
        _every_compile(flags, graphs, frozenset(case.graphs), without_effect.append),
        _caches_of_its_own(Path(options.folder)),
        nullcontext() if decisions is None else control.activate(decisions),
    ):
        arguments = arguments_among(flags)
        # What Python is to run, or what is compiled anew, may not be possible in one graph.
        if decisions is not None and any(map(decisions.denies, _BREAKING)):
            arguments["fullgraph"] = False
        run = _run(options, case, arguments, explained)
    return run, decisions, "".join(without_effect[:1])


@contextmanager
def _caches_of_its_own(below: Path) -> Iterator[None]:
    """The caches of compiled graphs are on where the user has them on, and hold what this run puts there:
    hooks are in no cache key. Kernels are shared, which are cached by their source.

    below: where they are, in a folder that somebody else removes, should this process be killed.
    """
    with tempfile.TemporaryDirectory(dir=below) as folder:
        graphs = mock.patch.object(FxGraphCache, "_get_tmp_dir", lambda: os.path.join(folder, "fx"))
        traces = mock.patch.object(AOTAutogradCache, "_get_tmp_dir", lambda: os.path.join(folder, "aot"))
        inductor = {"fx_graph_remote_cache": False, "compile_threads": COMPILERS}
        autograd = functorch_config.patch(compilation.backward_at_once())
        with graphs, traces, compilation.in_force(inductor_config, inductor), autograd:
            yield


# Frames that are compiled anew at each call come to these limits, and then run in Python.
_WITHOUT_LIMIT: dict[str, Json] = {
    "dynamo.recompile_limit": 1 << 20,
    "dynamo.accumulated_recompile_limit": 1 << 20,
}


def _run(
    options: ProgramOptions,
    case: Case,
    arguments: Mapping[str, Json],
    explained: Explained | None,
    mode: Mode = Mode.COMPILED,
) -> PlainRun:
    """arguments: of torch.compile, in the place of the script's own."""
    calls: list[CompiledCall] = []
    events: list[Mapping[str, Any]] = []
    printed = io.StringIO()

    def note(**event: Any) -> None:
        if "index" in event:
            calls.append(wire.load(CompiledCall, event))
        else:
            events.append(event)

    asked = WatchOptions(
        mode=mode, seed=options.seed, folder=options.folder, only=case.calls, until=case.until,
        arguments=arguments, backend=None if options.rung in (INDUCTOR, OWN) else options.rung,
    )  # fmt: skip
    asks_guards = control.current(kinds.GUARD.name) is not None
    if explained is not None:
        finish = watch.begin(asked, note, explained.calls.around, explained.rerun)
    else:
        finish = watch.begin(asked, note, Calls().around if asks_guards else watch.alone)
    ended, status = None, 0
    try:
        run_script.hear(sys.stderr, lambda text: note(said=text))
        with mock.patch.object(os, "_exit", _leave), redirect_stdout(printed):
            random.seed(options.seed)
            execute(options.script, edited=partial(without, left_out=case.left_out))
    except _Left as left:
        status = left.status
    except SystemExit as left:
        status = run_script.status_of(left)
        note(said=run_script.last_words(left))
    except Exception as error:  # noqa: BLE001 - the script may raise anything; it is compared with eager's
        ended, status = run_script.describe_error(error), 1
    with mock.patch.object(os, "_exit", _leave), suppress(_Left):  # as the last call ends that is looked at
        finish()
    lines = printed.getvalue().splitlines()
    run = PlainRun(
        ended=ended, status=status, printed=tuple(lines[:MOST_LINES]), cut=digest_of_rest(lines)
    )  # fmt: skip
    return with_events(run, calls, events)


def _leave(status: int) -> NoReturn:
    raise _Left(status)


@contextmanager
def _every_compile(
    flags: Mapping[str, Json], graphs: Graphs, only: Set[int], note: Callable[[str], None]
) -> Iterator[None]:
    """The flags hold whatever the script sets, from the beginning and again as each compile begins.

    only: the numbers of the graphs that Inductor compiles, the others run op by op; none: all of them. note:
    receives why a flag has no effect: what the script raises of it would look like the compiler's answer.
    """

    def apply(options: Mapping[str, Any]) -> None:
        try:
            torch_state.apply_flags(flags, options)
        except torch_state.CannotSet as error:
            note(str(error))

    def lowered(original: Callable[..., Any], gm: Any, inputs: Any, given: Mapping[str, Any]) -> Any:
        if graphs.current() not in (only or {graphs.current()}):
            return gm
        patches = given.get("config_patches") or {}
        own = {k: v for k, v in patches.items() if f"inductor.{k}" not in flags}
        apply(own)
        return original(gm, inputs, **{**given, "config_patches": own or None})

    apply({})
    with mock.patch.object(*of_compile_fx(lowered)):
        yield
