"""What a worker answers: one function for each type of request about the recorded calls of a script, and for
those that can be asked of a script as a whole too, one of `program.program_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ... import wire
from ...core import protocol as asked
from ...core.evidence import Evidence
from ...core.graphinfo import GraphInfo
from ...core.messages import ProgramOptions
from ...core.model import Json, Measurement
from .. import (
    describe,
    evidence,
    execute,
    formula,
    hooks,
    probing,
    simplify,
    source_capture,
    steer,
    torch_state,
    write_scripts,
)
from ..capture.load import Loaded
from ..capture.record import Call
from ..flags import fix_trials, installed, reads
from ..following import follow
from ..hooks import selftest, tested
from ..program import program_jobs

FREEZING = "inductor.freezing"
Subject = Loaded | ProgramOptions  # what a worker was started for: recorded calls, or a script as a whole
WHOLE_PROGRAM = "the script is studied as a whole, not graph by graph"
ONE_GRAPH = "one graph is studied, not the script as a whole"


@dataclass(frozen=True)
class Job:
    """of_calls: None for what can only be asked of a script; of_script: for what can only be asked of a
    graph."""

    of_calls: Callable[[Loaded, Any], Any] | None
    of_script: Callable[[ProgramOptions, Any], Any] | None = None


def answer(subject: Subject, request: asked.Request[Any]) -> Json:
    """The answer of a request, as JSON. Raises CannotAnswer."""
    if isinstance(request, asked.AboutCase):
        for kind, reason in request.about.hooks_off.items():
            hooks.disable(kind, reason)
    job = _JOBS[type(request)]
    if isinstance(subject, Loaded):
        if job.of_calls is None:
            raise asked.CannotAnswer(ONE_GRAPH)
        return wire.dump(job.of_calls(subject, request))
    if job.of_script is None:
        raise asked.CannotAnswer(WHOLE_PROGRAM)
    return wire.dump(job.of_script(subject, request))


def _call(loaded: Loaded, request: asked.AboutCase[Any]) -> Call:
    return loaded.recorder.calls[request.about.call]


def _prepared(loaded: Loaded, request: asked.AboutCase[Any]) -> execute.Subject:
    return execute.prepare(_call(loaded, request), request.about.case, request.about.train)


def _probe(loaded: Loaded, request: asked.RunProbe) -> Measurement:
    about = request.about
    known = partial(loaded.probe_cache.program, request)
    call = _call(loaded, request)
    return probing.probe(call, about.case, request.candidate, about.train, known, request.runs)


def _probe_calls(loaded: Loaded, request: asked.RunCalls) -> asked.OfCalls:
    calls = [loaded.recorder.calls[index] for index in request.calls]
    if any(call.raised or call.setting(FREEZING) for call in calls):  # it compiles what the inputs hold
        raise asked.CannotAnswer("each call is to be compiled by itself")
    return asked.OfCalls(tuple(probing.probe_calls(calls, request.train)))


def _pasted(loaded: Loaded, request: asked.RunPasted) -> Measurement:
    about = request.about
    return fix_trials.pasted(_call(loaded, request), about.case, request.line, about.train)


def _verdict(loaded: Loaded, request: asked.RunVerdict) -> Evidence:
    return evidence.collect(_call(loaded, request), request.about.case, request.about.train)


def _trace(loaded: Loaded, request: asked.RunTrace) -> asked.Traced:
    about, call = request.about, _call(loaded, request)
    how = request.left_out, request.reach, request.shares
    return follow.trace(call, about.case, request.candidate, about.train, *how)


def _varying(loaded: Loaded, request: asked.FindVarying) -> asked.Varying:
    return follow.first_varying(_call(loaded, request), request.about.case, request.about.train)


def _slowdown(loaded: Loaded, request: asked.TimeSlowdown) -> asked.Ratios:
    about, call = request.about, _call(loaded, request)
    return fix_trials.slowdown(call, about.case, request.candidate, about.train, request.seconds)


def _other_inputs(loaded: Loaded, request: asked.TryOtherInputs) -> asked.Draws:
    about, call = request.about, _call(loaded, request)
    return fix_trials.try_candidates(
        call, about.case, request.candidates, request.criterion, about.train, request.draws
    )


def _steer(loaded: Loaded, request: asked.SteerInputs) -> asked.Steered:
    about, call = request.about, _call(loaded, request)
    asked_of = request.wanted, request.tolerances, about.train, request.magnifying
    found = steer.steer(call, about.case, *asked_of)
    return asked.Steered(None if found is None else found.case(about.case))


def _simplify(loaded: Loaded, request: asked.SimplifyInputs) -> asked.Steered:
    about, call = request.about, _call(loaded, request)
    wanted = simplify.Wanted(request.wanted, request.criterion, request.signatures)
    return asked.Steered(
        simplify.simplify(call, about.case, wanted, dict(request.simpler), about.train)
    )


def _code(loaded: Loaded, request: asked.DigestCode) -> asked.GeneratedCode:
    about, call = request.about, _call(loaded, request)
    digest = probing.code_of(call, about.case, request.candidate, about.train)
    # Without code the compile was not made, or not to its end: what it had left to read is not known.
    unread = reads.unread(request.names) if digest is not None else ()
    return asked.GeneratedCode(digest, frozenset(unread))


def _source(loaded: Loaded, request: asked.ShowSource) -> asked.Source:
    about, call = request.about, _call(loaded, request)
    sources = probing.sources_of(call, about.case, request.candidate, about.train)
    return asked.Source("\n".join(map(source_capture.normalized, sources)) or None)


def _info(loaded: Loaded, request: asked.DescribeGraph) -> GraphInfo:
    return describe.describe(_prepared(loaded, request))


def _repro(loaded: Loaded, request: asked.WriteRepro) -> asked.Repro:
    return write_scripts.repro(_prepared(loaded, request), request.spec)


def _flags(loaded: Loaded, request: asked.ReadFlags) -> asked.Settings:
    call = _call(loaded, request)
    torch_state.restore(call.state)
    values: dict[str, asked.Setting] = {}
    for name in request.names:
        option = call.graph.entry.options.get(name.removeprefix("inductor."))
        try:
            value = torch_state.current_flag(name) if option is None else option
        except KeyError:
            continue
        values[name] = asked.Setting(value, installed.variable(name))
    return asked.Settings(values)


def _formulas(loaded: Loaded, request: asked.FindFormulas) -> asked.Formulas:
    args = _call(loaded, request).args
    device = next((a.device.type for a in args if isinstance(a, torch.Tensor)), "cpu")
    return asked.Formulas({decision: formula.source_of(decision, device) for decision in request.ids})


def _warm(loaded: Loaded, request: asked.WarmUp) -> asked.Done:
    execute.compile_once(_call(loaded, request), request.about.case, request.about.train)
    return asked.Done()


def _selftest(loaded: Loaded, request: asked.SelfTest) -> asked.HooksTested:
    calls = loaded.recorder.calls
    flags = selftest.flags_on(lambda flag: any(call.setting(f"inductor.{flag}") for call in calls))
    torch_state.reset(loaded.recorder.start)  # the script's own settings are no part of the test
    return tested.hooks_tested(selftest.run(flags), {device for call in calls for device in call.devices()})


_JOBS: dict[type[asked.Request[Any]], Job] = {
    asked.RunProbe: Job(_probe, program_jobs.run_probe),
    asked.RunCalls: Job(_probe_calls),
    asked.RunPasted: Job(_pasted),
    asked.RunVerdict: Job(_verdict, program_jobs.verdict),
    asked.RunTrace: Job(_trace),
    asked.FindVarying: Job(_varying),
    asked.ExplainReuse: Job(None, program_jobs.reuse),
    asked.ListSteps: Job(None, program_jobs.steps),
    asked.TimeSlowdown: Job(_slowdown),
    asked.TryOtherInputs: Job(_other_inputs),
    asked.SteerInputs: Job(_steer),
    asked.SimplifyInputs: Job(_simplify),
    asked.DigestCode: Job(_code, program_jobs.code),
    asked.ShowSource: Job(_source),
    asked.DescribeGraph: Job(_info),
    asked.WriteRepro: Job(_repro),
    asked.ReadFlags: Job(_flags, program_jobs.flags),
    asked.FindFormulas: Job(_formulas, program_jobs.formulas),
    asked.WarmUp: Job(_warm),
    asked.SelfTest: Job(_selftest, program_jobs.self_test),
}


def in_worker(request: asked.Request[Any]) -> bool:
    """Whether the job runs in the worker itself, for what it leaves behind there."""
    return isinstance(request, asked.WarmUp)
