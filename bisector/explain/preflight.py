"""What a search asks first: which hooks work with this torch, and which backends agree."""

from __future__ import annotations

from typing import Any

from bisector.core import backends
from bisector.core.answer import Preflight
from bisector.core.case import WHOLE, Case
from bisector.core.compared import Compared
from bisector.core.first_bad import first_bad
from bisector.core.kinds import KINDS
from bisector.core.model import Candidate, Measurement, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.probe_reasons import Baseline
from bisector.core.protocol import Failed, HooksTested, Request, SelfTest
from bisector.core.recorded import MANY_ELEMENTS, RecordedCall

from . import localisation
from .study import Study


def wanted_first(study: Study, call: RecordedCall) -> list[Request[Any]]:
    """What a search asks first. The verdict keeps one lane busy for long; meanwhile this takes the others."""
    if study.lab.jobs < 2:
        return []
    followed = call.is_large or call.elements <= MANY_ELEMENTS
    trace = [localisation.request(study, WHOLE)] if followed and call.can_be_followed else []
    return [SelfTest(), *trace, *study.requests(_rungs(call))]


def test_hooks(study: Study) -> HooksTested:
    """Which hooks work here; none does where the self-test itself failed."""
    answer = study.lab.ask(SelfTest())
    if not isinstance(answer, Failed):
        return answer
    failed = f"the self-test failed: {answer.reason}"
    return HooksTested({kind.name: failed for kind in KINDS.values() if kind.hooked}, {})


def try_backends(study: Study, call: RecordedCall, default: Measurement, hooks: HooksTested) -> Preflight:
    """All backends before the script's own are tried, since one that agrees may stand above one that
    diverges. default: the default compile of the whole."""
    rungs = _rungs(call)
    results = study.probe_all(rungs) if rungs else []
    named = {candidate.backend: result for (candidate, _), result in zip(rungs, results, strict=True)}
    outcomes = [(name, result.outcome) for name, result in named.items()]
    first, unknown = first_bad([*outcomes, (call.backend, Outcome.FAIL)])
    agreeing = {name: r for name, r in reversed(named.items()) if r.outcome is Outcome.PASS}
    values = Compared(values=len(default.outputs))
    eager = ProbeResult(Outcome.PASS, Baseline(), compared=values)
    return Preflight(hooks, first, unknown, {**agreeing, "eager": eager})


def _rungs(call: RecordedCall) -> list[tuple[Candidate, Case]]:
    """`eager` runs the recorded graph op by op, which is what a call is held to."""
    before = backends.rungs_before(call.backend)
    return [(Candidate(backend=rung), WHOLE) for rung in before if rung != "eager"]
