"""What is asked of every subject first: whether the hooks bite, which backends agree, and the trace."""

from __future__ import annotations

from typing import Any

from bisector.core.case import WHOLE
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.protocol import Failed, HooksTested, RecordedCall, Request, SelfTest

from . import following
from .grouping import FINEST_FIRST
from .study import Study

LOWER_RUNGS = ("aot_eager", "aot_eager_decomp_partition")
_RUNGS = [(Candidate(backend=name), WHOLE) for name in LOWER_RUNGS]
# Graphs of up to this many calls are searched whole before they are reduced; a probe of a larger one takes
# seconds, and its plain baseline a kernel for every node.
SEARCHED_WHOLE = 40
# Inputs of more elements make each probe slow by itself; they are cut down before the search.
MANY_ELEMENTS = 2**20


def is_large(call: RecordedCall) -> bool:
    """Whether the graph is looked into by regions."""
    return call.nodes > SEARCHED_WHOLE


def can_follow_whole(call: RecordedCall) -> bool:
    """Whether the whole graph may be compiled with all its values returned."""
    return call.nodes <= following.MOST_CALLS


def wanted_first(study: Study, call: RecordedCall) -> list[Request[Any]]:
    """What a search will ask: beside the verdict, which keeps one lane for long, it costs little time."""
    if study.lab.jobs < 2:
        return []
    followed = is_large(call) or call.elements <= MANY_ELEMENTS
    trace = [following.request(study, WHOLE)] if followed and can_follow_whole(call) else []
    return [SelfTest(), *trace, *study.requests(_RUNGS)]


def backends(study: Study) -> tuple[str, dict[str, ProbeResult]]:
    """The first backend that diverges, and those below Inductor that agree.

    All are tried, since the ladder is not monotone.
    """
    named = dict(zip(LOWER_RUNGS, study.probe_all(_RUNGS), strict=True))
    failing = [name for name, r in named.items() if r.outcome is Outcome.FAIL]
    agreeing = {name: r for name, r in named.items() if r.outcome is Outcome.PASS}
    eager = ProbeResult(Outcome.PASS, "the baseline")
    return failing[0] if failing else "inductor", {**dict(reversed(agreeing.items())), "eager": eager}


def tested_hooks(answer: HooksTested | Failed) -> HooksTested:
    """Which hooks work here; none does where the self-test itself failed."""
    if isinstance(answer, HooksTested):
        return answer
    failed = f"the self-test failed: {answer.reason}"
    return HooksTested({kind: failed for kind in FINEST_FIRST if kind != "config"}, {})
