"""Requests to answers: what a forked child does. Each job takes the loaded subject and plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ...core.case import Case
from ...core.criterion import Criterion
from ...core.model import Candidate, Outcome
from .. import ambient, evidence, execute, formula, held, hooks, probing, source_capture
from .. import pasted as pasting
from .. import steer as steering
from ..capture.load import Loaded
from ..capture.record import Call
from ..flags import elsewhere as others
from ..flags import live, reads, timing
from ..flags.codes import code_of, sources_of
from ..following import trace as tracing
from ..graph import describe, write
from ..hooks import selftest as hooks_selftest
from ..hooks import triton_selftest
from ..known import held_key
from .holders import REFUSED

Request = Mapping[str, Any]


def probe(loaded: Loaded, request: Request) -> dict[str, Any]:
    """One candidate on one case of one call -> Measurement."""
    _switch_off(request)
    call, case, candidate = _asked(loaded, request)
    known = partial(loaded.known.program, request)
    return probing.probe(call, case, candidate, request["train"], known).to_json()


def pasted(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The default compile after a line of plain torch -> Measurement."""
    call, case = loaded.recorder.calls[request["call"]], Case.from_json(request["case"])
    return pasting.pasted(call, case, request["line"], request["train"]).to_json()


def code(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The code generated for one candidate, neither built nor run, and which of the named flags nothing has
    read up to here -> {"code": digest or None, "unread": [name, …]}."""
    call, case, candidate = _asked(loaded, request)
    digest = code_of(call, case, candidate, request["train"])
    return {"code": digest, "unread": reads.unread(request["names"])}


def source(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The code generated for one candidate, without comments and paths -> {"source": text or None}."""
    call, case, candidate = _asked(loaded, request)
    _switch_off(request)
    sources = sources_of(call, case, candidate, request["train"])
    return {"source": "\n".join(map(source_capture.normalized, sources)) or None}


def slowdown(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Times of one candidate and of the default in turn -> {"ratios"} or {"problem": …}."""
    call, case, candidate = _asked(loaded, request)
    return timing.slowdown(call, case, candidate, request["train"], request["seconds"])


def elsewhere(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Candidates on other inputs -> {"draws": …} or {"problem": …}."""
    call = loaded.recorder.calls[request["call"]]
    candidates = [Candidate.from_json(c) for c in request["candidates"]]
    case, criterion = Case.from_json(request["case"]), Criterion.from_json(request["criterion"])
    return others.elsewhere(call, case, candidates, criterion, request["train"], request["draws"])


def held_by(loaded: Loaded, request: Request) -> str | None:
    """What the compile is known by that answers this probe and others of its series; None if it must be
    compiled by itself. The first of a series is, since it is what the others are checked against."""
    if request["job"] != "probe" or not request.get("series"):
        return None
    candidate = Candidate.from_json(request["candidate"])
    if candidate.backend != "inductor" or not held.split(candidate)[1]:
        return None
    return held_key(request) if held.pays(candidate, loaded.known.compiled_as(request)) else None


def hold(loaded: Loaded, request: Request) -> Callable[[Request], dict[str, Any]]:
    """Compile what `held_by` names; returns the job of each probe then. Raises NotHeld."""
    _switch_off(request)
    call, case, candidate = _asked(loaded, request)
    candidate, _ = held.split(candidate)
    found = held.hold(call, case, candidate, request["train"], loaded.known.compiled_as(request))

    def run(probe: Request) -> dict[str, Any]:
        _, local = held.split(Candidate.from_json(probe["candidate"]))
        if not found.answers(local):
            return {REFUSED: True}
        found.settle()
        return found.measure(local).to_json()

    return run


def steer(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Input values on which the candidates give the outcomes wanted of them -> {"case": … or null}."""
    _switch_off(request)
    call = loaded.recorder.calls[request["call"]]
    wanted = [(Candidate.from_json(c), Outcome(o)) for c, o in request["wanted"]]
    case = Case.from_json(request["case"])
    found = steering.steer(
        call, case, wanted, request["tolerances"], request["train"],
        request["seconds"], request["magnifying"],
    )  # fmt: skip
    return {"case": found and found.case(case).to_json()}


def trace(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The compiled run of a case, node by node -> {"trace": …, "measurement": …} or {"problem": …}."""
    _switch_off(request)
    call, case, candidate = _asked(loaded, request)
    return tracing.trace(call, case, candidate, request["train"], request["left_out"])


def _asked(loaded: Loaded, request: Request) -> tuple[Call, Case, Candidate]:
    """What a request about one candidate names."""
    call = loaded.recorder.calls[request["call"]]
    return call, Case.from_json(request["case"]), Candidate.from_json(request["candidate"])


def _switch_off(request: Request) -> None:
    for kind, reason in request.get("hooks_off", {}).items():
        hooks.disable(kind, reason)


def warm(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Compile once in the process that later ones are forked from, so that they find its caches filled."""
    call, case = loaded.recorder.calls[request["call"]], Case.from_json(request["case"])
    execute.compile_once(call, case, request["train"])
    return {}


def selftest(loaded: Loaded, request: Request) -> dict[str, Any]:
    """off: kinds whose hooks do not bite in this torch; not_here: kinds that the subject's devices lack
    -> {"off": {kind: reason}, "not_here": {kind: reason}}."""
    calls = loaded.recorder.calls
    flags = hooks_selftest.flags_on(lambda flag: any(_inductor_setting(call, flag) for call in calls))
    ambient.reset(loaded.recorder.start)  # the script's own settings are no part of the test
    tried = hooks_selftest.run(flags)
    if torch.cuda.is_initialized():
        tried |= triton_selftest.run()
    off = {kind: reason for kind, reason in tried.items() if reason is not None}
    devices = {device for call in calls for device in call.devices()}
    return {"off": off, "not_here": hooks.not_here(devices)}


def _inductor_setting(call: Call, flag: str) -> Any:
    """The value of an Inductor flag around the call, None where this torch has no such flag."""
    name = f"inductor.{flag}"
    current = ambient.current_flag(name) if ambient.has_flag(name) else None
    return call.graph.entry.options.get(flag, call.ambient.configs.get("inductor", {}).get(flag, current))


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


def test(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Source of the test of a case, and the test's name."""
    call = loaded.recorder.calls[request["call"]]
    subject = execute.prepare(call, Case.from_json(request["case"]), request["train"])
    return write.test_file(subject, request)


def flags(loaded: Loaded, request: Request) -> dict[str, Any]:
    """The named flags, as far as this torch has them, around a call -> {name: {"value", "env"}}."""
    call = loaded.recorder.calls[request["call"]]
    ambient.restore(call.ambient)
    values: dict[str, Any] = {}
    for name in request["names"]:
        option = call.graph.entry.options.get(name.removeprefix("inductor."))
        try:
            value = ambient.current_flag(name) if option is None else option
        except KeyError:
            continue
        values[name] = {"value": value, "env": live.variable(name)}
    return values


def formulas(loaded: Loaded, request: Request) -> dict[str, Any]:
    """Where torch writes the formulas behind the named `lower` and `decomp` decisions -> {ID: file:line}."""
    args = loaded.recorder.calls[request["call"]].args
    device = next((a.device.type for a in args if isinstance(a, torch.Tensor)), "cpu")
    return {decision: formula.source_of(decision, device) for decision in request["ids"]}


# Run in the worker itself, for what they leave behind there.
IN_WORKER = frozenset({"warm"})

JOBS: dict[str, Callable[[Loaded, Request], dict[str, Any]]] = {
    "probe": probe,
    "pasted": pasted,
    "code": code,
    "source": source,
    "slowdown": slowdown,
    "elsewhere": elsewhere,
    "steer": steer,
    "trace": trace,
    "warm": warm,
    "selftest": selftest,
    "verdict": verdict,
    "info": info,
    "flags": flags,
    "formulas": formulas,
    "repro": repro,
    "test": test,
}
