"""How much slower the compiled subject is under a candidate than under the default compile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from ...core.case import Case
from ...core.model import Candidate
from ...core.protocol import CannotAnswer, Ratios
from .. import execute, tensors
from ..capture.record import Call
from ..programs import Program, program

# A block of runs shorter than this is mostly the clock's and the scheduler's noise.
BLOCK_S = 0.02
LEAST_ROUNDS, MOST_ROUNDS = 5, 41


@dataclass(frozen=True)
class Timed:
    """A program and what it runs on: one set of inputs for all that are compared, since how fast memory is
    read depends on where it lies."""

    program: Program
    inputs: list[Any]

    def block(self, runs: int) -> float:
        """Seconds that so many runs take, one after the other."""
        with self.program.flags_set():
            started = time.perf_counter()
            for _ in range(runs):
                self._run()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            return time.perf_counter() - started

    def _run(self) -> None:
        outputs = self.program.compiled(*self.inputs)
        if self.program.subject.train:
            execute.backward(self.program.subject, tensors.as_list(outputs))


def slowdown(
    call: Call, case: Case, candidate: Candidate, train: bool | None, seconds: float
) -> Ratios:
    """Blocks of runs of both programs in turn. seconds: for all the rounds, of which there are some at least.

    Raises CannotAnswer where the candidate does not compile.
    """
    subject = execute.prepare(call, case, train)
    try:
        made = [program(subject, case, each) for each in (Candidate(), candidate)]
    except execute.NotCompiled as error:
        raise CannotAnswer(str(error)) from error
    inputs = made[0].inputs()
    default, other = (Timed(each, inputs) for each in made)
    for timed in (default, other, default):
        once = timed.block(1)  # of the last: what the compile has left to do, the first run of each does
    runs = max(1, round(BLOCK_S / once))
    ratios: list[float] = []
    ends = time.monotonic() + seconds
    while len(ratios) < LEAST_ROUNDS or (len(ratios) < MOST_ROUNDS and time.monotonic() < ends):
        pair = [default, other] if len(ratios) % 2 else [other, default]  # neither is always the second
        took = {id(timed): timed.block(runs) for timed in pair}
        ratios.append(took[id(other)] / took[id(default)])
    return Ratios(tuple(ratios))
