"""What this worker has measured already: by compile, and by generated code.

One compile answers for many probes (`held`): those that differ in kernel-local decisions alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import wire
from ..core.kinds import KINDS
from ..core.model import Base, Candidate, Json, Measurement, OutputMeasurement, kind_of
from ..core.protocol import Request, RunProbe, RunVerdict, VerdictData

LOCAL = {base: frozenset(kind.name for kind in KINDS.values() if base in kind.open_over) for base in Base}
LOOP = "vec:loop"


def split(candidate: Candidate) -> tuple[Candidate, frozenset[str]]:
    """The candidate without its kernel-local members, and those."""
    local = frozenset(m for m in candidate.members if is_local(m, candidate.base))
    return replace(candidate, members=candidate.members - local), local


def is_local(decision_id: str, base: Base) -> bool:
    """Whether a compile can leave the decision open."""
    return kind_of(decision_id) in LOCAL[base] and not decision_id.startswith(LOOP)


class ProbeCache:
    """Answers of earlier probes, learned in the process that later ones are forked from."""

    def __init__(self) -> None:
        self._held: dict[str, dict[frozenset[str], Measurement]] = {}
        self._programs: dict[tuple[str, str], tuple[OutputMeasurement, ...]] = {}

    def learn(self, request: Request[Any], answer: Json) -> None:
        """Keep a probe's answer. One that measured nothing (a crash, a timeout) teaches nothing."""
        if isinstance(request, RunVerdict):  # its default compile is a probe beside others
            measurement = wire.load(VerdictData, answer).default
            request = RunProbe(request.about, Candidate())
        elif isinstance(request, RunProbe):
            measurement = wire.load(Measurement, answer)
        else:
            return
        if measurement.error is not None:
            return
        _, local = split(request.candidate)
        self._held.setdefault(compile_key(request), {})[local] = measurement
        self._programs.setdefault((_place(request), measurement.code), measurement.outputs)

    def compiled_as(self, request: RunProbe) -> Mapping[frozenset[str], Measurement]:
        """What is known of the compiles that differ from the request's in kernel-local decisions alone."""
        return self._held.get(compile_key(request), {})

    def program(self, request: RunProbe, digest: str) -> tuple[OutputMeasurement, ...] | None:
        """What a program of this digest gave on the request's case; None if unknown, and for repetitions,
        which are asked to run."""
        return None if request.trial else self._programs.get((_place(request), digest))


def compile_key(request: RunProbe) -> str:
    """Equal for probes that one compile answers: they differ in kernel-local decisions alone."""
    candidate, _ = split(request.candidate)
    return wire.text_of([_place(request), wire.dump(candidate)])


def _place(request: RunProbe) -> str:
    """What is run on what, and under which flags: a flag can act at run time, or on the C++ compiler's
    command line, and neither is in the source."""
    candidate = replace(Candidate(), flags=request.candidate.flags, backend=request.candidate.backend)
    return wire.text_of([wire.dump(candidate), wire.dump(request.about)])
