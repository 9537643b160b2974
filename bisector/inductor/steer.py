"""Other input values for a case: those that bring one element to a step of the program.

After a step (ceil, a comparison, a cast to an integer) a difference in the last bit shows in one element
of a million, so a smaller graph or smaller inputs mostly agree by chance alone. Multiplying an input by a
factor moves an element across its step; where exactly is found by bisection in eager, and next to that
place a last-bit difference shows. Without a step a sum shows it in which large terms cancel: multiplied by
a large factor they leave the absolute tolerance behind, and little is left of them. Nothing is claimed
here: the case with the new values is probed as any other. Which sum cancels is a matter of the terms; with
new numbers in place of an input another one may.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..core.case import Case
from ..core.model import Candidate
from ..core.outcome import Outcome
from . import execute, source_capture, tensors, torch_state
from .capture.record import Call
from .graph.smaller_inputs import scale, simplify
from .graph.tensor_literals import SEEDS

Wanted = Sequence[tuple[Candidate, Outcome]]
# By dtype, (rtol, atol); a dtype that is missing is compared exactly.
Tolerances = Mapping[str, tuple[float, float]]

ELEMENTS = 4  # tried in each input; most elements differ in the last bit where a decision moves one at all
INPUTS = 3
# A factor between 1 and 2 carries every binary magnitude over one power of two, where exponents step.
RANGE = (1.0, 2.0)
HALVINGS = 30  # to steps finer than float32's last bit (2**-24)
# Elements computed in all runs of one search: some three seconds of a core. A bound in seconds would find
# less on a slower machine.
MOST_WORK = 6_000_000_000
FLOPS = 16  # of a matrix product or a convolution, that take the time of one element elsewhere
NUDGE = 1 + 2**-12  # too little to carry many elements over a step; enough to move every one without steps


@dataclass(frozen=True)
class Moved:
    """What to do to one input: draw it anew with that seed (None: leave it), and multiply it then."""

    input: str
    factor: float
    seed: int | None = None

    def case(self, of: Case) -> Case:
        """That case on these values."""
        drawn = of if self.seed is None else of.with_value(self.input, f"randn:{self.seed}")
        return drawn.with_scale(self.input, self.factor)


@dataclass(frozen=True)
class _Place:
    """An element of one output that a larger input carries over a step."""

    input: str
    output: int
    at: int


class _Counted(torch.fx.Interpreter):
    """Runs a graph and counts the elements of what its nodes return."""

    elements = 0

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self.elements += sum(v.numel() for v in tensors.as_list(result) if isinstance(v, torch.Tensor))
        return result


@dataclass
class _Runs:
    """Runs of eager and of compiled programs on the case's inputs, one of them multiplied. left: how many
    more there may be, once the work of one is known."""

    subject: execute.Subject
    tolerances: Tolerances
    left: float = math.inf

    def __post_init__(self) -> None:
        self.eager = execute.eager_program(self.subject)

    def bound(self) -> None:
        """Run once, and see how many more runs the work of this one allows."""
        edited = self.subject.edited
        counted = _Counted(edited.gm)
        with FlopCounterMode(display=False) as flops:
            self.outputs(counted.run, edited.args)
        self.left = MOST_WORK / max(1, counted.elements + flops.get_total_flops() / FLOPS)

    def moved(self, how: Moved) -> list[Any]:
        """The case's inputs, one of them moved."""
        args = list(self.subject.edited.args)
        at = self.subject.names.index(how.input)
        drawn = args[at] if how.seed is None else simplify(args[at], f"randn:{how.seed}")
        args[at] = scale(drawn, how.factor)
        return args

    def outputs(self, fn: Callable[..., Any], args: Sequence[Any]) -> list[torch.Tensor]:
        self.left -= 1
        torch_state.restore_rng(self.subject.call.state)
        result = fn(*tensors.fresh(args, self.subject.edited.requires_grad))
        return [value.detach() for value in tensors.as_list(result) if isinstance(value, torch.Tensor)]

    def element(self, place: _Place, factor: float) -> Any:
        """Its value in eager."""
        args = self.moved(Moved(place.input, factor))
        return self.outputs(self.eager, args)[place.output].reshape(-1)[place.at].item()

    def agree(self, fn: Callable[..., Any], eager: Sequence[torch.Tensor], args: Sequence[Any]) -> bool:
        compiled = self.outputs(fn, args)
        return all(self._close(e, c) for e, c in zip(eager, compiled, strict=True))

    def _close(self, e: torch.Tensor, c: torch.Tensor) -> bool:
        rtol, atol = self.tolerances.get(tensors.dtype_name(e.dtype), (0.0, 0.0))
        return bool(torch.isclose(c, e, rtol=rtol, atol=atol, equal_nan=True).all())


def steer(
    call: Call,
    case: Case,
    wanted: Wanted,
    tolerances: Tolerances,
    train: bool | None,
    magnifying: Sequence[float] = (),
) -> Moved | None:
    """An input and how to move it, so that every candidate gives the outcome that is wanted of it; None
    where none was found within `MOST_WORK`.

    magnifying: factors to try where no step is found. Raises what eager or the compiler raise on the case.
    """
    subject = execute.prepare(call, case, train)
    if subject.train:
        return None  # the graph of a gradient is compiled when it first runs, too late for the hooks
    runs = _Runs(subject, tolerances)
    places = list(_places(runs))
    programs = _programs(subject, wanted) if places or magnifying else []
    if not programs:
        return None
    runs.bound()
    for how in _moves(runs, places, magnifying):
        args = runs.moved(how)
        eager = runs.outputs(runs.eager, args)
        if all(runs.agree(fn, eager, args) is agrees for fn, agrees in programs):
            return how
        if runs.left <= 0:
            break
    return None


def _moves(runs: _Runs, places: Sequence[_Place], magnifying: Sequence[float]) -> Iterator[Moved]:
    """What to try, what changes least first."""
    for place in places:
        yield from (Moved(place.input, factor) for factor in _step(runs, place))
    # Of a sum's results one in some twenty cancels by so much, and a small output has few: hence the draws.
    for name in _largest(runs) if magnifying else ():
        yield from (Moved(name, factor, seed) for seed in (None, *range(SEEDS)) for factor in magnifying)


def _programs(subject: execute.Subject, wanted: Wanted) -> list[tuple[Callable[..., Any], bool]]:
    """A compiled program for each candidate, and whether it is to agree with eager; none where the same
    program would have to agree and not to."""
    programs: list[tuple[Callable[..., Any], bool]] = []
    asked_of: dict[str, Outcome] = {}
    for candidate, outcome in wanted:
        with (
            torch_state.kept([*dict(candidate.flags), execute.HEADER_FLAG]),
            source_capture.collected() as sources,
            execute.active(execute.control_for(candidate)),
        ):
            programs.append((execute.compile_subject(subject, candidate), outcome is Outcome.PASS))
        if asked_of.setdefault(source_capture.digest(sources), outcome) is not outcome:
            return []
    return programs


def _places(runs: _Runs) -> Iterator[_Place]:
    """Elements to try, of the first output that has steps, for the largest inputs."""
    for name in _largest(runs):
        factors = (RANGE[0], NUDGE, RANGE[1])
        low, nudged, high = (runs.outputs(runs.eager, runs.moved(Moved(name, f))) for f in factors)
        for index, (a, n, b) in enumerate(zip(low, nudged, high, strict=True)):
            moved = (a != b).reshape(-1).nonzero().reshape(-1)
            if len(moved) and 2 * int((a != n).sum()) < a.numel():
                for at in moved[:: max(1, len(moved) // ELEMENTS)][:ELEMENTS].tolist():
                    yield _Place(name, index, at)
                break


def _largest(runs: _Runs) -> list[str]:
    """The few largest inputs among those that can be multiplied."""
    floats = [
        (value.numel(), name)
        for name, value in zip(runs.subject.names, runs.subject.edited.args, strict=True)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    ]
    return [name for _, name in sorted(floats, reverse=True)[:INPUTS]]


def _step(runs: _Runs, place: _Place) -> tuple[float, float]:
    """The factors between which the element changes in eager, as near to each other as they get."""
    low, high = RANGE
    before = runs.element(place, low)
    for _ in range(HALVINGS):
        if runs.left <= 0:
            break
        middle = (low + high) / 2
        low, high = (middle, high) if runs.element(place, middle) == before else (low, middle)
    return low, high
