"""What is asked of every subject first: which hooks work with this torch, and which backends agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bisector.core.case import WHOLE
from bisector.core.kinds import KINDS
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.protocol import Failed, HooksTested, RecordedCall, Request, SelfTest

from . import following
from .starting import MANY_ELEMENTS, can_follow_whole
from .study import Study

OWN_BACKEND = "custom"  # none of torch's rungs: the script's own backend, or another package's
LOWER_RUNGS = ("aot_eager", "aot_eager_decomp_partition")
_RUNGS = [(Candidate(backend=name), WHOLE) for name in LOWER_RUNGS]


@dataclass(frozen=True)
class Preflight:
    """hooks: which work here. first_bad_backend: the first that diverges; agreeing: those below Inductor
    that agree, `eager` last, with their default compile."""

    hooks: HooksTested
    first_bad_backend: str
    agreeing: Mapping[str, ProbeResult]


def wanted_first(study: Study, call: RecordedCall) -> list[Request[Any]]:
    """What will be asked: beside the verdict, which keeps one lane for long, it costs little time."""
    if study.lab.jobs < 2:
        return []
    followed = call.is_large or call.elements <= MANY_ELEMENTS
    trace = [following.request(study, WHOLE)] if followed and can_follow_whole(call) else []
    return [SelfTest(), *trace, *study.requests(_RUNGS)]


def test_hooks(study: Study) -> HooksTested:
    """Which hooks work here; none does where the self-test itself failed."""
    answer = study.lab.ask(SelfTest())
    if not isinstance(answer, Failed):
        return answer
    failed = f"the self-test failed: {answer.reason}"
    return HooksTested({kind.name: failed for kind in KINDS.values() if kind.hooked}, {})


def try_backends(study: Study, call: RecordedCall, hooks: HooksTested) -> Preflight:
    """All backends are tried, since one that agrees may stand above one that diverges."""
    named = dict(zip(LOWER_RUNGS, study.probe_all(_RUNGS), strict=True))
    failing = [name for name, r in named.items() if r.outcome is Outcome.FAIL]
    agreeing = {name: r for name, r in reversed(named.items()) if r.outcome is Outcome.PASS}
    eager = ProbeResult(Outcome.PASS, "the baseline")
    below = "inductor" if call.backend == "inductor" else OWN_BACKEND
    return Preflight(hooks, failing[0] if failing else below, {**agreeing, "eager": eager})
