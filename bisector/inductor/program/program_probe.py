"""A probe of the whole program: the script runs in a forked child that has torch and nothing of the script's,
with a candidate's decisions denied in each compile, and what it gives is measured against the run with
compilation off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import torch
import torch._inductor.compile_fx

from ... import wire
from ...core.case import WHOLE, Case
from ...core.messages import ProgramOptions
from ...core.model import Candidate, Json, Measurement
from ...core.program import KEPT, CompiledCall, PlainRun, outputs_of
from .. import compiling, torch_state
from ..execute import COMPILERS, active
from ..probing import measurement_of
from . import run_script, watching
from .graph_control import Graphs, ProgramControl


class _Left(BaseException):
    """The script has ended its process."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def probe(options: ProgramOptions, candidate: Candidate, case: Case = WHOLE) -> Measurement:
    """Run the script once in this process, which is good for nothing afterwards. Of a case its graphs and
    calls are obeyed: a script has nothing else to leave out."""
    started = time.perf_counter()
    folder = Path(options.folder)
    eager = wire.load(PlainRun, json.loads((folder / KEPT).read_text(encoding="utf-8")))
    hooked = candidate.backend == "inductor" and (candidate.needs_hooks or not candidate.flags)
    graphs = Graphs()
    decisions = ProgramControl(graphs, candidate.base, candidate.members) if hooked else None
    torch.set_num_threads(options.threads)
    compiling.decompositions_as_they_are()
    flags = {**options.config, **dict(candidate.flags)}
    with _every_compile(flags, graphs, frozenset(case.graphs)), active(decisions, COMPILERS):
        compiled = _run(options, None if candidate.backend == "inductor" else candidate.backend, case.calls)
    if options.values_alone:
        compiled = replace(compiled, agreed=(), ended=None, status=0)
    found = measurement_of(outputs_of(eager, compiled), decisions, "")
    return replace(found, seconds=time.perf_counter() - started)


def _run(options: ProgramOptions, backend: str | None, only: Sequence[int]) -> PlainRun:
    calls: list[CompiledCall] = []
    agreed: list[bool] = []

    def note(**event: Any) -> None:
        if "index" in event:
            calls.append(wire.load(CompiledCall, event))
        elif "agreed" in event:
            agreed.append(event["agreed"])

    told = {"folder": options.folder, "mode": "compiled", "seed": options.seed}
    told |= {"backend": backend, "only": only}
    finish = watching.begin(told, note)
    ended, status = None, 0
    try:
        with mock.patch.object(os, "_exit", _leave):
            run_script.execute(options.script, options.seed)
    except _Left as left:
        status = left.status
    except SystemExit as left:
        status = run_script.status_of(left)
    except Exception as error:  # noqa: BLE001 - the script may raise anything; it is compared with eager's
        ended, status = run_script.describe_error(error), 1
    finish()
    return PlainRun(tuple(calls), tuple(agreed), {}, ended, status)


def _leave(status: int) -> NoReturn:
    raise _Left(status)


@contextmanager
def _every_compile(flags: Mapping[str, Json], graphs: Graphs, only: Set[int]) -> Iterator[None]:
    """The flags hold whatever the script sets, from the beginning and again as each compile begins.

    only: the numbers of the graphs that Inductor compiles, the others run op by op; none: all of them.
    """
    torch_state.apply_flags(dict(flags))
    original: Callable[..., Any] = torch._inductor.compile_fx.compile_fx

    def compile_fx(gm: Any, *args: Any, config_patches: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        if graphs.current() not in (only or {graphs.current()}):
            return gm
        torch_state.apply_flags(dict(flags))
        own = {k: v for k, v in (config_patches or {}).items() if f"inductor.{k}" not in flags}
        return original(gm, *args, config_patches=own or None, **kwargs)

    with mock.patch.object(torch._inductor.compile_fx, "compile_fx", compile_fx):
        yield
