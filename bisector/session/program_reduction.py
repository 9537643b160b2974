"""A smaller script: the fewest of its graphs and calls that must be compiled for it to diverge alike.

The others run op by op. A graph keeps its number, so that a decision found here is the same one in the whole
script, where it is confirmed. Fewer calls can mean other graphs: they are told, and serve the repro alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bisector.core.case import WHOLE, Case
from bisector.core.judge import BudgetSpent
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.search.minimal import Members, minimal_set

from .questions import Allowance, DecisionTest
from .study import Study

_GRAPH = re.compile(r"g(\d+)/")  # begins a decision ID of a script
_CALL = re.compile(r"call\[(\d+)\]")  # begins the path of an output of a script
MOST_RUNS = 12  # of the script, for its calls; a loop in which every call adds its part stays as it is


class _Compiled(DecisionTest):
    """FAIL where the script diverges alike with only these graphs, or calls, compiled."""

    def __init__(
        self, study: Study, smaller: Callable[..., Case], allowance: Allowance | None = None
    ) -> None:
        super().__init__(study, smaller(), allowance)
        self.smaller = smaller

    def of(self, members: Members) -> Case:
        return self.smaller(*map(int, members))

    def ask(self, members: Members) -> ProbeResult:
        return self.study.probe(Candidate(), self.of(members))

    def ahead(self, sets: Sequence[Members]) -> None:
        self.study.probe_all([(Candidate(), self.of(members)) for members in sets])


def graphs_of(default: ProbeResult) -> list[str]:
    """The numbers of the graphs in which a decision was taken."""
    found = {int(m[1]) for d in default.measurement.decisions if (m := _GRAPH.match(d.id))}
    return [str(number) for number in sorted(found)]


def fewest_graphs(study: Study, default: ProbeResult) -> Case:
    """The script with as few graphs compiled as diverge alike; WHOLE where all are needed."""
    graphs = graphs_of(default)
    if len(graphs) < 2:
        return WHOLE
    asking = _Compiled(study, WHOLE.with_graphs)
    if asking(frozenset(graphs)) is not Outcome.FAIL:  # a graph without decisions may have a part in it
        return WHOLE
    found = minimal_set(graphs, asking, likely=[frozenset({graph}) for graph in graphs[:2]]).members
    return asking.of(frozenset(found)) if len(found) < len(graphs) else WHOLE


def fewest_calls(study: Study, default: ProbeResult) -> Case:
    """The script with as few calls compiled as diverge alike; WHOLE where all are needed."""
    calls = calls_of(default)
    if len(calls) < 2:
        return WHOLE
    shown = [m[1] for signature in default.signatures if (m := _CALL.match(signature.path))]
    asking = _Compiled(study, WHOLE.with_calls, Allowance(MOST_RUNS))
    try:
        kept = minimal_set(calls, asking, likely=[frozenset(shown[:1])]).members
    except BudgetSpent:
        return WHOLE
    return asking.of(frozenset(kept)) if len(kept) < len(calls) else WHOLE


def calls_of(default: ProbeResult) -> list[str]:
    """The places of the compiled calls of which something was measured."""
    found = {int(m[1]) for o in default.measurement.outputs if (m := _CALL.match(o.path))}
    return [str(number) for number in sorted(found)]


def said_of(default: ProbeResult, graphs: Case, calls: Case) -> list[str]:
    """What need not be compiled, in sentences."""
    said = []
    if graphs.graphs:
        kept = " and ".join(f"g{number}" for number in graphs.graphs)
        said.append(f"of its {len(graphs_of(default))} graphs it diverges with {kept} alone compiled")
    if calls.calls:
        kept = ", ".join(str(number + 1) for number in calls.calls)
        word = "call" if len(calls.calls) == 1 else "calls"
        said.append(f"of its {len(calls_of(default))} calls it diverges with {word} {kept} alone compiled")
    return said
