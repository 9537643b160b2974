"""What this worker has measured already: by compile, and by generated code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.model import Candidate, Measurement, OutputMeasurement
from .held import split

Request = Mapping[str, Any]


class Known:
    """Answers of earlier probes, learned in the process that later ones are forked from."""

    def __init__(self) -> None:
        self._held: dict[str, dict[frozenset[str], Measurement]] = {}
        self._programs: dict[tuple[str, str], tuple[OutputMeasurement, ...]] = {}

    def learn(self, request: Request, answer: Mapping[str, Any]) -> None:
        """Keep a probe's answer. One that measured nothing (a crash, a timeout) teaches nothing."""
        if request.get("job") == "verdict":  # its default compile is a probe beside others
            request, answer = {**request, "candidate": Candidate().to_json()}, answer.get("default", {})
        elif request.get("job") != "probe":
            return
        if answer.get("error", "") is not None:
            return
        measurement = Measurement.from_json(answer)
        _, local = split(Candidate.from_json(request["candidate"]))
        self._held.setdefault(held_key(request), {})[local] = measurement
        self._programs.setdefault((_place(request), measurement.code), measurement.outputs)

    def compiled_as(self, request: Request) -> Mapping[frozenset[str], Measurement]:
        """What is known of the compiles that differ from the request's in kernel-local decisions alone."""
        return self._held.get(held_key(request), {})

    def program(self, request: Request, digest: str) -> tuple[OutputMeasurement, ...] | None:
        """What a program of this digest gave on the request's case; None if unknown, and for repetitions,
        which are asked to run."""
        return None if request.get("trial") else self._programs.get((_place(request), digest))


def held_key(request: Request) -> str:
    """Equal for probes that one compile answers: they differ in kernel-local decisions alone."""
    candidate, _ = split(Candidate.from_json(request["candidate"]))
    return json.dumps([_place(request), candidate.to_json()], sort_keys=True)


def _place(request: Request) -> str:
    """What is run on what, and under which flags: a flag can act at run time, or on the C++ compiler's
    command line, and neither is in the source."""
    candidate = request["candidate"]
    parts = ("call", "case", "train", "hooks_off")
    setting = [candidate["flags"], candidate["backend"], *(request.get(part) for part in parts)]
    return json.dumps(setting, sort_keys=True)
