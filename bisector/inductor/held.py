"""A case compiled once with its kernel-local decisions left open: a set of them then costs one run.

The kernels hold both forms of each such decision (`hooks/switch.py`). The process that compiled forks for
each run, so it never runs a parallel loop in its main thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from bisector.errors import first_line

from ..core.case import Case
from ..core.model import Base, Candidate, Measurement, OutputMeasurement
from . import compiling, execute, probing, source_capture, torch_state
from .capture.record import Call
from .control import Control
from .hooks import switch
from .probe_cache import LOCAL, is_local
from .threads import run_in_thread

# A compile that leaves its decisions open costs two or three plain ones. It pays where a search among so many
# decisions will ask more than that, or has done so.
MANY_OPEN = 8
SEVERAL_COMPILED = 3


class NotHeld(Exception):
    """This case cannot be held; the message says why. Its probes are compiled one by one."""


def pays(candidate: Candidate, plain: Mapping[frozenset[str], Measurement]) -> bool:
    """Whether to hold what differs from the candidate in kernel-local members alone.

    plain: what is known of compiled ones, by those members; without any nothing could be checked.
    """
    listed = {decision.id for measurement in plain.values() for decision in measurement.decisions}
    left_open = [i for i in listed if is_local(i, candidate.base)]
    return len(plain) >= SEVERAL_COMPILED or len(left_open) >= MANY_OPEN


@dataclass(frozen=True)
class Held:
    """One compile. `eager`: what its runs are measured against; `code`: the digest of its source."""

    subject: execute.Subject
    candidate: Candidate
    compiled: Callable[..., Any]
    decisions: Control
    eager: execute.Outputs
    code: str

    def answers(self, members: frozenset[str]) -> bool:
        """Whether every kernel-local member is left open in this compile, or did not come up in it."""
        seen = {decision.id for decision in self.decisions.decisions()}
        return members & seen <= self.decisions.switches.keys()

    def measure(self, members: frozenset[str]) -> Measurement:
        """Run it with these denied, or over the plain baseline with these alone allowed."""
        started = time.perf_counter()
        switches = self.decisions.switches
        denied = members if self.candidate.base is Base.DEFAULT else switches.keys() - members
        switch.deny(switches[member] for member in denied if member in switches)
        try:
            compiled = execute.run(self.subject, self.compiled)
        except Exception as error:  # noqa: BLE001 - whatever the compiled program raises is its reason
            return Measurement(error=f"compiled program fails: {first_line(error)}")
        seen = {decision.id for decision in self.decisions.decisions()}
        return Measurement(
            outputs=probing.measured(self.subject, self.eager, compiled),
            decisions=self.decisions.decisions(),
            vanished=tuple(sorted((self.candidate.members | members) - seen)),
            code=f"{self.code} without {' '.join(sorted(denied))}" if denied else self.code,
            seconds=time.perf_counter() - started,
        )

    def settle(self) -> None:
        """Make the calling thread as the compile's was: settings belong to a thread."""
        torch_state.restore(self.subject.call.state)
        torch_state.apply_flags(dict(self.candidate.flags))


def hold(
    call: Call,
    case: Case,
    candidate: Candidate,
    train: bool | None,
    plain: Mapping[frozenset[str], Measurement],
) -> Held:
    """Compile the case in a thread of its own, and check it against what is known from `plain` compiles.

    plain: by kernel-local members. Raises NotHeld where the compile fails or gives anything else.
    """
    found: list[Held] = []
    reasons: list[str] = []

    def work() -> None:
        try:
            held = _compiled(call, case, candidate, train)
            _check(held, plain)
            found.append(held)
        except Exception as error:  # noqa: BLE001 - whatever it is, the probes are then made one by one
            reasons.append(first_line(error))

    run_in_thread(work, "hold")
    if not found:
        raise NotHeld(reasons[0] if reasons else "the thread that compiled it ended")
    return found[0]


def _compiled(call: Call, case: Case, candidate: Candidate, train: bool | None) -> Held:
    if inductor_config.cpp_wrapper:
        raise NotHeld("a C++ wrapper calls its kernels without asking")
    switch.publish()
    subject = execute.prepare(call, case, train)
    eager = execute.run(subject, execute.eager_program(subject))
    kinds, candidate = _open_kinds(subject, candidate)
    decisions = Control(candidate.base, candidate.members, kinds)
    with (
        source_capture.collected() as sources,
        functorch_config.patch({compiling.BACKWARD_AT_ONCE: True}),  # a fork cannot compile it later
        execute.active(decisions),
    ):
        compiled = execute.compile_subject(subject, candidate)
    return Held(subject, candidate, compiled, decisions, eager, source_capture.digest(sources))


def _open_kinds(subject: execute.Subject, candidate: Candidate) -> tuple[frozenset[str], Candidate]:
    """The kinds to leave open. Where the compiler may contract products, it is told not to, and the products
    that it would have contracted are written so."""
    kinds = LOCAL[candidate.base]
    options = subject.call.graph.entry.options
    flags = dict(candidate.flags)
    name = execute.CONTRACTION.removeprefix("inductor.")
    current = options.get(name, inductor_config.cpp.enable_floating_point_contract_flag)
    if flags.get(execute.CONTRACTION, current) == "off":
        return kinds - {"fma"}, candidate
    return kinds, replace(candidate, flags=tuple(sorted({**flags, execute.CONTRACTION: "off"}.items())))


def _check(held: Held, plain: Mapping[frozenset[str], Measurement]) -> None:
    answered = {members: expected for members, expected in plain.items() if held.answers(members)}
    if not answered:
        raise NotHeld("nothing is known that it could be checked against")
    for members, expected in answered.items():
        given = held.measure(members)
        if _without_reference(given) != _without_reference(expected):
            raise NotHeld("its kernels do not give what the plain ones give")
        if {d.id for d in given.decisions} != {d.id for d in expected.decisions}:
            raise NotHeld("it does not come to the same decisions")


def _without_reference(measurement: Measurement) -> list[OutputMeasurement]:
    return [
        replace(
            output,
            rms_error_eager=None,
            rms_error_compiled=None,
            rms_rounding=None,
            reference_nonfinite_eager=0,
            reference_nonfinite_compiled=0,
        )
        for output in measurement.outputs
    ]
