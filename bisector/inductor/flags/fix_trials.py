"""What a fix is tried for: that the line of plain torch which is printed repairs, that it holds on other
inputs, and what it costs in time, with the compiled forms of the subject side by side.

A decision is denied at a node, where a hook asks; what plain torch can leave out, it leaves out everywhere of
a name, and not in the same place: the table of decompositions is not asked for an op that autograd has
decomposed before. So a line is tried before it is printed. What repairs by moving rounding elsewhere repairs
the recorded inputs by chance, and not the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import decomposition

from ...core.case import Case
from ...core.criterion import Criterion
from ...core.judge import judge
from ...core.model import Candidate, Measurement
from ...core.protocol import CannotAnswer, Draw, Draws, Ratios
from ...errors import first_line
from .. import execute, probing, tensors, torch_state
from ..capture.record import Call
from ..graph import edit
from ..hooks import decomp
from ..redrawn_inputs import redrawn

# A block of runs shorter than this is mostly the clock's and the scheduler's noise.
BLOCK_S = 0.02
LEAST_ROUNDS, MOST_ROUNDS = 5, 41

Outputs = execute.Outputs
# A candidate with a setting and no decision is compiled with the hooks asleep, as plain torch would; the
# worker compiles without caches anyway.
_UNHOOKED = Candidate.with_flags({"inductor.force_disable_caches": True})


@dataclass(frozen=True)
class TrialProgram:
    """One compiled form of a subject, and the flags that it runs under."""

    subject: execute.Subject
    compiled: Callable[..., Any]
    flags: Mapping[str, Any]

    @contextmanager
    def flags_set(self) -> Iterator[None]:
        with torch_state.kept(self.flags):
            torch_state.apply_flags(self.flags)
            yield

    def inputs(self) -> list[Any]:
        """The subject's own, for one run or for many."""
        return tensors.fresh(self.subject.edited.args, self.subject.edited.requires_grad)

    def outputs(self, args: Sequence[Any]) -> Outputs:
        """Of one run on these inputs."""
        with self.flags_set():
            return _outputs(self.subject, self.compiled, args)


def program(subject: execute.Subject, case: Case, candidate: Candidate) -> TrialProgram:
    """Compiled from a copy of the graph, with static shapes: a second compile would find the call's own
    tracing context changed by the first. Raises NotCompiled.

    It has run once: a backward graph is compiled when it first runs, under the settings of then.
    """
    call, flags = subject.call, dict(candidate.flags)
    edited = edit.apply(call.graph.gm, call.args, call.requires_grad, case, lambda: None)
    copied = replace(subject, edited=edited, whole=False)
    with torch_state.kept([*flags, execute.HEADER_FLAG]), execute.active(execute.control_for(candidate)):
        made = TrialProgram(copied, execute.compile_subject(copied, candidate), flags)
        execute.run(copied, made.compiled)
    return made


@dataclass(frozen=True)
class Timed:
    """A program and what it runs on: one set of inputs for all that are compared, since how fast memory is
    read depends on where it lies."""

    program: TrialProgram
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


def try_candidates(
    call: Call,
    case: Case,
    candidates: Sequence[Candidate],
    criterion: Criterion,
    train: bool | None,
    draws: int,
) -> Draws:
    """The outcome by default and with each candidate, for each draw of values. Raises CannotAnswer where one
    does not compile."""
    subject = execute.prepare(call, case, train)
    try:
        programs = [program(subject, case, each) for each in (Candidate(), *candidates)]
    except execute.NotCompiled as error:
        raise CannotAnswer(str(error)) from error
    found = []
    for draw in range(draws):
        args = redrawn(subject.edited.args, draw)
        eager = _outputs(subject, execute.eager_program(subject), args)
        results = [execute.measured(subject, eager, each.outputs(args), args=args) for each in programs]
        default, *fixed = (judge(one, criterion).outcome for one in results)
        found.append(Draw(default, tuple(fixed)))
    return Draws(tuple(found))


def _outputs(subject: execute.Subject, fn: Any, args: Sequence[Any]) -> Outputs:
    return execute.run(subject, fn, tensors.fresh(args, subject.edited.requires_grad))


def pasted(call: Call, case: Case, line: str, train: bool | None) -> Measurement:
    """The default compile in this process, which the line has changed. line: Python, with `torch` there."""
    decomp.forget_chosen_kernels()
    try:
        exec(line, {"torch": torch})
    except Exception as error:  # noqa: BLE001 - a line that torch does not take is no way to apply a fix
        return Measurement(error=f"the line fails: {first_line(error)}")
    forget_copies()
    return probing.probe(call, case, _UNHOOKED, train)


def forget_copies() -> None:
    """Of the table of decompositions, which a compile before this one made."""
    copied = getattr(decomposition, "fast_random_decomps", None)
    if (clear := getattr(copied, "cache_clear", None)) is not None:
        clear()
