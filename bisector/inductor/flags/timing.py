"""How much slower the compiled subject is under a candidate than under the default compile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...core.case import Case
from ...core.model import Candidate
from .. import ambient, execute, tensors
from ..capture.record import Call
from ..graph import edit

# A block of runs shorter than this is mostly the clock's and the scheduler's noise.
BLOCK_S = 0.02
LEAST_ROUNDS, MOST_ROUNDS = 5, 41


@dataclass(frozen=True)
class Program:
    """One compiled form of the subject, with inputs of its own and the flags that it runs under."""

    subject: execute.Subject
    compiled: Any
    inputs: list[Any]
    flags: Mapping[str, Any]

    def block(self, runs: int) -> float:
        """Seconds that so many runs take, one after the other."""
        with ambient.kept(self.flags):
            ambient.apply_flags(self.flags)
            started = time.perf_counter()
            for _ in range(runs):
                self._run()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            return time.perf_counter() - started

    def _run(self) -> None:
        outputs = self.compiled(*self.inputs)
        if self.subject.train:
            execute.backward(self.subject, list(outputs) if isinstance(outputs, (tuple, list)) else [outputs])


def slowdown(
    call: Call, case: Case, candidate: Candidate, train: bool | None, seconds: float
) -> dict[str, Any]:
    """Blocks of runs of both programs in turn -> {"ratios": candidate over default, one for each round,
    "default_s": of one run} or {"problem": …}. seconds: for all the rounds, of which there are some at least.
    """
    subject = execute.prepare(call, case, train)
    try:
        default, other = (_program(subject, case, each) for each in (Candidate(), candidate))
    except execute.NotCompiled as error:
        return {"problem": str(error)}
    for program in (default, other, default):
        once = program.block(1)  # of the last: what the compile has left to do, the first run of each does
    runs = max(1, round(BLOCK_S / once))
    ratios: list[float] = []
    plain: list[float] = []
    ends = time.monotonic() + seconds
    while len(ratios) < LEAST_ROUNDS or (len(ratios) < MOST_ROUNDS and time.monotonic() < ends):
        pair = [default, other] if len(ratios) % 2 else [other, default]  # neither is always the second
        took = {id(program): program.block(runs) for program in pair}
        ratios.append(took[id(other)] / took[id(default)])
        plain.append(took[id(default)] / runs)
    return {"ratios": ratios, "default_s": sorted(plain)[len(plain) // 2]}


def _program(subject: execute.Subject, case: Case, candidate: Candidate) -> Program:
    """Compiled from a copy of the graph, with static shapes: a second compile would find the call's own
    tracing context changed by the first."""
    call, flags = subject.call, dict(candidate.flags)
    edited = edit.apply(call.graph.gm, call.args, call.requires_grad, case, lambda: None)
    copied = replace(subject, edited=edited, whole=False)
    with ambient.kept([*flags, execute.HEADER_FLAG]), execute.active(execute.control_for(candidate)):
        compiled = execute.compile_subject(copied, candidate)
        inputs = tensors.fresh(edited.args, edited.requires_grad)
        program = Program(copied, compiled, inputs, flags)
        program.block(1)  # a backward graph is compiled when it first runs, under the settings of then
    return program
