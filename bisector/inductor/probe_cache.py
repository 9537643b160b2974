"""What this worker has measured already, by generated code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import wire
from ..core.evidence import Evidence
from ..core.model import Candidate, Json, Measurement
from ..core.protocol import Request, RunProbe, RunVerdict


class ProbeCache:
    """Answers of earlier probes, learned in the process that later ones are forked from."""

    def __init__(self) -> None:
        self._programs: dict[tuple[str, str], Measurement] = {}

    def learn(self, request: Request[Any], answer: Json) -> None:
        """Keep a probe's answer. One that measured nothing (a crash, a timeout) teaches nothing."""
        if isinstance(request, RunVerdict):  # its default compile is a probe too
            measurement = wire.load(Evidence, answer).default
            request = RunProbe(request.about, Candidate())
        elif isinstance(request, RunProbe):
            measurement = wire.load(Measurement, answer)
        else:
            return
        if measurement.error is not None:
            return
        values = Measurement(measurement.outputs, same=measurement.same, unseen=measurement.unseen)
        self._programs.setdefault((_place(request), measurement.code), values)

    def program(self, request: RunProbe, digest: str) -> Measurement | None:
        """What a program of this digest gave on the request's case; None if unknown, and for repetitions,
        which are asked to run."""
        if request.trial or request.runs > 1:
            return None
        return self._programs.get((_place(request), digest))


def _place(request: RunProbe) -> str:
    """What is run on what, and under which flags: a flag can act at run time, or on the C++ compiler's
    command line, and neither is in the source."""
    candidate = replace(Candidate(), flags=request.candidate.flags, backend=request.candidate.backend)
    return wire.text_of([wire.dump(candidate), wire.dump(request.about)])
