"""Requests to answers: what a forked child does. Each job takes the loaded subject and plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..core.case import Case
from ..core.model import Candidate, Outcome
from . import ambient, evidence, execute, hooks
from . import steer as steering
from .graph import describe, write
from .hooks import selftest as hooks_selftest
from .hooks import triton_selftest
from .load import Loaded

Request = Mapping[str, Any]


def probe(loaded: Loaded, request: Request) -> dict[str, Any]:
    """One candidate on one case of one call -> Measurement."""
    _switch_off(request)
    call = loaded.recorder.calls[request["call"]]
    case, candidate = Case.from_json(request["case"]), Candidate.from_json(request["candidate"])
    return execute.probe(call, case, candidate, request["train"]).to_json()


def steer(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Input values on which the candidates give the outcomes that are wanted of them -> {"scale": …}."""
    _switch_off(request)
    call = loaded.recorder.calls[request["call"]]
    wanted = [(Candidate.from_json(c), Outcome(o)) for c, o in request["wanted"]]
    found = steering.steer(
        call, Case.from_json(request["case"]), wanted, request["tolerances"], request["train"],
        request["seconds"],
    )  # fmt: skip
    return {"scale": found}


def _switch_off(request: Request) -> None:
    for kind, reason in request.get("hooks_off", {}).items():
        hooks.disable(kind, reason)


def warm(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Compile once in the process that later ones are forked from, so that they find its caches filled."""
    execute.compile_once(loaded.recorder.calls[request["call"]], request["train"])
    return {}


def selftest(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The kinds whose hooks do not bite in this torch -> {kind: reason}."""
    found = hooks_selftest.run()
    if torch.cuda.is_initialized():
        found |= triton_selftest.run()
    failed = {kind: reason for kind, reason in found.items() if reason is not None}
    return hooks.disabled() | failed


def verdict(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The default compile with reference and repeats -> VerdictData."""
    call = loaded.recorder.calls[request["call"]]
    return evidence.verdict(call, Case.from_json(request["case"]), request["train"]).to_json()


def info(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The nodes of a case with shapes and places -> GraphInfo."""
    call = loaded.recorder.calls[request["call"]]
    return describe.describe(execute.prepare(call, Case.from_json(request["case"]), request["train"]))


def repro(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Source of the repro of a case, and of its function alone."""
    call = loaded.recorder.calls[request["call"]]
    subject = execute.prepare(call, Case.from_json(request["case"]), request["train"])
    return write.repro(subject, request)


def flags(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Values of the named flags as they stand around a call -> {name: value | "absent"}."""
    call = loaded.recorder.calls[request["call"]]
    ambient.restore(call.ambient)
    values: dict[str, Any] = {}
    for name in request["names"]:
        option = call.graph.entry.options.get(name.removeprefix("inductor."))
        try:
            values[name] = ambient.current_flag(name) if option is None else option
        except KeyError:
            values[name] = "absent"
    return values


# Run in the worker itself, for what they leave behind there.
IN_WORKER = frozenset({"warm"})

JOBS: dict[str, Callable[[Loaded, Request], dict[str, Any]]] = {
    "probe": probe,
    "steer": steer,
    "warm": warm,
    "selftest": selftest,
    "verdict": verdict,
    "info": info,
    "flags": flags,
    "repro": repro,
}
