"""The evidence of a verdict: the default compile measured against float64, and how steady and how sensitive
the two sides are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx

from bisector.core import accuracy, kinds
from bisector.core.case import Case
from bisector.core.evidence import FALLBACK_RANDOM, MOST_RUNS, NO_REFERENCE, Evidence, Repeated
from bisector.core.model import Candidate, Measurement
from bisector.errors import first_line

from . import tensors, torch_state
from .capture.record import Call
from .eager_again import FailsAgain, steadiness
from .equality import differing
from .execute import Outputs, Subject, eager_program, measured, prepare, run, run_again
from .measure import Exact
from .moves import Moves
from .nudges import OneUlp
from .probing import compiled_measurement, probe
from .redrawn_inputs import redrawn
from .reference import (
    Float64,
    LeavingOut,
    NoReference,
    Obeying,
    copied,
    narrowing_casts,
    widened,
)
from .repeats import repeated
from .rounding import rounding_of
from .undefined import OTHERS, ChangedCalls, UndefinedCalls

NUDGES = 5  # a discontinuity is met by one ulp in about half of the draws; five miss one in thirty
MANY = 1_000_000  # among so many elements one draw meets every discontinuity that matters

DRAWS, DRAWING_S = 24, 1.0
# Runs of eager that draw other numbers. That one more draws three elements beyond all of theirs happens once
# in 5,000 times where each is drawn by itself; where one number scales all, in one of so many runs.
DRAWN, OUTSIDE = 16, 3

Compiled = Callable[..., Any]


def collect(call: Call, case: Case, train: bool | None) -> Evidence:
    """Everything that a verdict is made of but the trace."""
    started = time.perf_counter()
    if call.raised:
        default = probe(call, case, Candidate(), train)
        unmeasured = Measurement(error=default.error)  # of two exceptions no bits are compared
        return Evidence(default, unmeasured, unmeasured, (), ())
    try:
        subject = prepare(call, case, train)
        gm = subject.edited.gm
        looked = EagerRun(gm)
        eager = run(subject, looked.run)
    except Exception as error:  # noqa: BLE001 - the recorded graph cannot be repeated; the reason is kept
        return Evidence.without(Measurement(error=f"eager fails: {first_line(error)}"))
    try:
        steady = steadiness(GraphAgain(subject), eager, _nudges(eager))
    except FailsAgain as failed:
        return Evidence.without(Measurement(error=str(failed)))
    casts = narrowing_casts(gm, looked.dtypes)
    reference = References(subject, casts, eager, looked.eps)
    exact = steady.moves.references(reference.outputs(None))
    draws = steady.again is not None and any(output.n_diff for output in steady.again.outputs)
    more = _MoreRuns(subject, eager, exact, steady.moves, reference, looked.undefined, draws)
    default = compiled_measurement(subject, Candidate(), eager, exact, watch=more.watch)
    drawn_as_eager = None
    if draws and torch_state.has_flag(FALLBACK_RANDOM):
        drawn_as_eager = compiled_measurement(subject, Candidate.with_flags({FALLBACK_RANDOM: True}), eager)
    executed = None
    if more.differs and casts:
        executed = _with_casts_executed(subject, eager, default, steady.moves, casts)
    default = replace(default, seconds=time.perf_counter() - started)
    evidence = steady.evidence(default, reference.notes, looked.coarsest)
    other_layouts = _other_layouts(default) if steady.undeclared else ()
    return replace(
        evidence, alike=drawn_as_eager, widest=more.widest, repeated=more.repeated, redrawn=more.redrawn,
        undefined=more.undefined, undefined_paths=more.undefined_paths, executed=executed,
        left_out=more.left_out, outside=more.outside,
        undeclared_paths=(*other_layouts, *evidence.undeclared_paths),
    )  # fmt: skip


class GraphAgain:
    """A recorded graph as `EagerAgain`."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def run(self, mode: AbstractContextManager[Any] | None = None) -> Outputs:
        with mode or nullcontext():
            return run(self.subject, eager_program(self.subject))

    def run_on(self) -> Outputs:
        return run_again(self.subject, eager_program(self.subject))

    def run_moved(self, seed: int, most: int) -> Outputs:
        return run(self.subject, OneUlp(self.subject.edited.gm, seed, most).run)

    def measured(
        self, eager: Outputs, other: Mapping[str, Any], reference: Mapping[str, Exact] | None = None
    ) -> Measurement:
        return measured(self.subject, eager, other, reference)


def _with_casts_executed(
    subject: Subject, eager: Outputs, default: Measurement, moves: Moves, casts: Collection[str]
) -> Measurement | None:
    """The compile in which no rounding to a narrower dtype is left out, nor a cast replaced by a pattern;
    None where none is seen to be. casts: the nodes of those that the program wrote."""
    made = [decision.id for decision in default.decisions]
    left_out = {one for one in made if one.kind == kinds.CAST.name}
    left_out |= {one for one in made if one.kind == kinds.MATCH.name and one.forward_node in casts}
    if not left_out:
        return None
    return compiled_measurement(subject, Candidate.deny(left_out), eager, moves.at_each_element())


def _nudges(outputs: Outputs) -> int:
    elements = sum(v.numel() for v in outputs.values() if isinstance(v, torch.Tensor))
    return 1 if elements > MANY else NUDGES


class EagerRun(torch.fx.Interpreter):
    """Runs a graph in eager.

    eps: the smallest machine epsilon among its float results; coarsest: the largest, its inputs among them.
    dtypes: of each node's tensor. undefined: nodes whose result torch leaves undefined, with the reason.
    """

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.eps = 1.0
        self.coarsest = 0.0
        self.dtypes: dict[str, torch.dtype] = {}
        self.undefined: dict[str, str] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        with UndefinedCalls() as calls:
            result = super().run_node(n)
        if calls.reason is not None:
            self.undefined[n.name] = calls.reason
        if isinstance(result, torch.Tensor):
            self.dtypes[n.name] = result.dtype
            if n.op != "placeholder":
                self.eps = min(self.eps, rounding_of(result))
            if math.isfinite(rounding_of(result)):
                self.coarsest = max(self.coarsest, rounding_of(result))
        return result


@dataclass
class References:
    """Runs of the subject in double precision. casts: those of the program that such a run obeys. eager: what
    the program gives in its own dtype; finest: machine epsilon of its finest float dtype."""

    subject: Subject
    casts: Mapping[str, torch.dtype]
    eager: Outputs
    finest: float
    notes: list[str] = field(default_factory=list)
    none: bool = False  # there is no such run, and why is noted
    _is_checked: bool = False

    def _check(self) -> None:
        """Whether the same construction in the program's own dtype gives eager's values, bit for bit: the
        inputs of a run in double precision are made anew, and the program may look at how they lie in
        memory."""
        edited = self.subject.edited
        try:
            given = widened(tensors.fresh(edited.args, edited.requires_grad), copied)
            outputs = run(self.subject, Obeying(edited.gm, {}).run, given)
        except Exception as error:  # noqa: BLE001 - whatever it raises, there is nothing to compare with
            self._without(f"the same construction in its own dtype fails: {first_line(error)}")
            return
        found = measured(self.subject, self.eager, outputs).outputs
        if differs := [o.path for o in found if o.n_diff or o.shape_compiled]:
            self._without(f"the same construction in its own dtype gives another {differs[0]} in eager")

    def _without(self, why: str) -> None:
        self.none = True
        self.notes.append(f"{NO_REFERENCE}{why}")

    def outputs(self, args: list[Any] | None, obeying: bool = True) -> Outputs | None:
        """args: other inputs than the subject's. None where there is no such run, or it is not known to be of
        the same program."""
        if not self._is_checked:
            self._is_checked = True
            self._check()
        if self.none:
            return None
        edited, mode = self.subject.edited, Float64(self.finest)
        program = Obeying(edited.gm, self.casts if obeying else {}).run
        try:
            wide = widened(tensors.fresh(edited.args if args is None else args, edited.requires_grad))
            with mode:
                outputs = run(self.subject, program, wide)
        except Exception as error:  # noqa: BLE001 - an op may fail in float64 in any way; reported, not guessed
            why = str(error).splitlines()[0] if isinstance(error, NoReference) else first_line(error)
            self._without(why)
            return None
        if mode.narrow and not self.notes:
            self.notes.append(f"no float64 kernel, run as given: {', '.join(sorted(mode.narrow))}")
        return outputs


@dataclass
class _MoreRuns:
    """What further runs tell of the compiled program, before it is gone. exact: the outputs of the float64
    run, if there is one. undefined, outside: as in `Evidence`; without those of which no output is any other
    once they are. draws: eager draws random numbers."""

    subject: Subject
    eager: Outputs
    exact: Mapping[str, Exact] | None
    moves: Moves
    reference: References
    undefined: Mapping[str, str]
    draws: bool = False
    outside: Mapping[str, int] = field(default_factory=dict)
    undefined_paths: tuple[str, ...] = ()
    differs: bool = False  # some output of the compiled program differs from eager
    widest: Measurement | None = None
    left_out: Measurement | None = None  # compiled against eager without the casts
    repeated: Repeated | None = None
    redrawn: tuple[Measurement, ...] = ()

    def watch(self, compiled: Compiled, first: Outputs) -> None:
        """first: the outputs of its first run."""
        self.repeated = repeated(self.subject, compiled, self.eager, first, MOST_RUNS, self.exact)
        outputs = measured(self.subject, self.eager, first).outputs
        differing = [o for o in outputs if o.n_diff or o.shape_compiled is not None]
        if not differing:
            return
        if self.draws:
            self.outside = self._outside(first)
        if self.undefined:
            self._look_at_undefined(first)
        self.differs = True
        if self.reference.casts:
            self.left_out = self._against_eager_without_casts(first)
            if (wide := self.reference.outputs(None, obeying=False)) is not None:
                self.widest = measured(self.subject, self.eager, first, self.moves.references(wide))
        if any(accuracy.is_few(o) and not accuracy.is_exact(o) for o in differing):
            self.redrawn = self._on_other_inputs(compiled)

    def _outside(self, first: Outputs) -> dict[str, int]:
        """The elements of each output that lie beyond all that eager draws in several runs. first: of the
        compiled program."""
        bounds, ends = _bounds(self.eager), time.monotonic() + DRAWING_S
        for _ in range(DRAWN):
            if time.monotonic() >= ends:
                return {}
            drawn = _bounds(run_again(self.subject, eager_program(self.subject)))
            both = {path: (*bounds[path], *drawn[path]) for path in bounds if path in drawn}
            bounds = {path: (min(ends_at), max(ends_at)) for path, ends_at in both.items()}
        found = dict[str, int]()
        for path, (low, high) in bounds.items():
            value = first.get(path)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                found[path] = int((~((value.double() >= low) & (value.double() <= high))).sum())
        return {path: count for path, count in found.items() if count >= OUTSIDE}

    def _against_eager_without_casts(self, first: Outputs) -> Measurement | None:
        """first: of the compiled program. None where eager does not run without them."""
        program = LeavingOut(self.subject.edited.gm, self.reference.casts).run
        try:
            return measured(self.subject, run(self.subject, program), first)
        except Exception:  # noqa: BLE001 - operations may refuse other dtypes than the program gives them
            return None

    def _look_at_undefined(self, first: Outputs) -> None:
        """first: of the compiled program."""
        changed, elsewhere = _changed_by_undefined(self.subject, self.eager)
        if not elsewhere and not any(bool(mask.any()) for mask in changed.values()):
            self.undefined = {}
        differing = _differing(self.eager, first)
        self.undefined_paths = tuple(
            path
            for path, mask in differing.items()
            if bool(mask.any()) and path in changed and bool((changed[path] | ~mask).all())
        )

    def _on_other_inputs(self, compiled: Compiled) -> tuple[Measurement, ...]:
        found: list[Measurement] = []
        ends = time.monotonic() + DRAWING_S
        requires_grad = self.subject.edited.requires_grad
        while len(found) < DRAWS and time.monotonic() < ends:
            args = redrawn(self.subject.edited.args, len(found))
            exact = self.reference.outputs(args)
            if exact is None:
                break
            programs = (eager_program(self.subject), compiled)
            try:
                eager, other = (run(self.subject, p, tensors.fresh(args, requires_grad)) for p in programs)
            except Exception:  # noqa: BLE001 - values that one of the two refuses tell nothing
                break
            found.append(measured(self.subject, eager, other, Moves(eager).references(exact), args))
        return tuple(found)


def _bounds(outputs: Outputs) -> dict[str, tuple[float, float]]:
    """The smallest and the largest element of each output of which all are finite."""
    found = dict[str, tuple[float, float]]()
    for path, value in outputs.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
            low, high = (float(bound) for bound in value.detach().double().aminmax())
            if math.isfinite(low) and math.isfinite(high):
                found[path] = low, high
    return found


def _changed_by_undefined(subject: Subject, eager: Outputs) -> tuple[dict[str, torch.Tensor], bool]:
    """The elements of each output that change in eager with what an undefined value is; and whether there are
    undefined values that were not changed."""
    found: dict[str, torch.Tensor] = {}
    elsewhere = False
    for turn in range(OTHERS):
        mode = ChangedCalls(turn)
        try:
            with mode:
                outputs = run(subject, eager_program(subject))
        except Exception:  # noqa: BLE001 - an index that is out of range with another value tells nothing
            continue
        elsewhere = elsewhere or mode.elsewhere
        for path, mask in _differing(eager, outputs).items():
            found[path] = found[path] | mask if path in found else mask
    return found, elsewhere


# What generated code raises where an operator's result has another layout than was described
# (torch/csrc/dynamo/guards.cpp, assert_size_stride).
_OTHER_LAYOUT = "AssertionError: expected size "


def _other_layouts(default: Measurement) -> tuple[str, ...]:
    """An exception of the compiled program which says that a result is not laid out as it was described."""
    exceptions = [(o.path, o.raised.compiled or "") for o in default.outputs if o.raised]
    return tuple(path for path, message in exceptions if message.startswith(_OTHER_LAYOUT))


def _differing(eager: Outputs, outputs: Outputs) -> dict[str, torch.Tensor]:
    """Where outputs of equal shape and dtype have other bits, by path."""
    found = {}
    for path, one in eager.items():
        other = outputs.get(path)
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        if one.shape == other.shape and one.dtype == other.dtype:
            found[path] = differing(one, other)
    return found
