"""Passes that make a script smaller: it ends at the first call that diverges; fewer of its graphs and calls
are compiled.

What is not compiled runs op by op. A graph keeps its number, so that a decision found in the smaller case is
the same one in the whole script. Fewer calls can mean other graphs; such a case serves a repro alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ..case import WHOLE, Case
from ..model import ProbeResult, Signature
from ..notes import Note
from ..outcome import Outcome
from ..search.minimal import Members, minimal_set
from ..search_notes import CallsCompiledAlone, EndedAtCall, GraphsCompiledAlone
from .problem import Problem, Trial

_CALL = re.compile(r"call\[(\d+)\]")  # begins the path of an output of a script
MOST_RUNS = 12  # of the script, for its calls; a loop in which every call adds its part stays as it is


def up_to_the_first_call(problem: Problem) -> None:
    """End the script after the first call that diverges: what comes later costs time in each of its runs."""
    diverging, calls = diverging_calls(problem.default.signatures), calls_of(problem.default)
    if diverging and int(diverging[0]) < max(map(int, calls)):
        problem.first_interesting([problem.case.with_end(int(diverging[0]))])


def fewest_graphs(problem: Problem) -> None:
    """Compile the fewest graphs with which the script still diverges the same way."""
    graphs = graphs_of(problem.default)
    if len(graphs) > 1:
        test = _Compiled(problem, problem.case.with_graphs)
        # A graph without decisions may have a part in it, so that all that are known need not suffice.
        if test(frozenset(graphs)) is Outcome.FAIL:
            first = [[graph] for graph in graphs[:2]]
            last = [graphs[-count:] for count in (1, 2, 4)]  # of the call that the script ends with
            _keep_fewest(problem, graphs, test, first if problem.case.until is None else last)


def fewest_calls(problem: Problem) -> None:
    """Run the fewest calls compiled with which the script still diverges the same way."""
    calls = calls_of(problem.default)
    if len(calls) > 1:
        smaller = _Compiled(problem, WHOLE.with_calls, MOST_RUNS)
        _keep_fewest(problem, calls, smaller, [diverging_calls(problem.default.signatures)[:1]])


def graphs_of(default: ProbeResult) -> list[str]:
    """The numbers of the graphs in which a decision was taken."""
    found = {d.id.graph for d in default.measurement.decisions}
    return [str(number) for number in sorted(n for n in found if n is not None)]


def calls_of(default: ProbeResult) -> list[str]:
    """The places of the compiled calls of which something was measured."""
    found = {int(m[1]) for o in default.measurement.outputs if (m := _CALL.match(o.path))}
    return [str(number) for number in sorted(found)]


def diverging_calls(signatures: Iterable[Signature]) -> list[str]:
    """The places of the calls that diverge, in their order."""
    places = [_CALL.match(signature.path) for signature in signatures]
    return [place[1] for place in places if place is not None]


def compiled_alone(default: ProbeResult, case: Case) -> list[Note]:
    """What need not be compiled in a case. default: of the whole script."""
    notes: list[Note] = []
    if case.until is not None:
        notes.append(EndedAtCall(case.until + 1, len(calls_of(default))))
    if case.graphs:
        notes.append(GraphsCompiledAlone(tuple(case.graphs), len(graphs_of(default))))
    if case.calls:
        numbers = tuple(number + 1 for number in case.calls)
        notes.append(CallsCompiledAlone(numbers, len(calls_of(default))))
    return notes


class _Enough(Exception):
    """As many runs were made as the pass may make."""


class _Compiled:
    """FAIL where the script diverges the same way with only these graphs, or calls, compiled."""

    def __init__(self, problem: Problem, smaller: Callable[..., Case], most_runs: int | None = None) -> None:
        self.problem = problem
        self.smaller = smaller
        self.left = most_runs
        self.trials: dict[Members, Trial] = {}

    def __call__(self, members: Members) -> Outcome:
        if self.left is not None:
            if not self.left:
                raise _Enough
            self.left -= 1
        self.trials[members] = trial = self.problem.interesting(self.smaller(*map(int, members)))
        return trial.outcome


def _keep_fewest(
    problem: Problem, numbers: Sequence[str], test: _Compiled, likely: Sequence[Sequence[str]]
) -> None:
    """Take the smallest case that still diverges. likely: sets that may suffice, the smallest first."""
    try:
        kept = frozenset(minimal_set(numbers, test, likely=list(map(frozenset, likely))).members)
    except _Enough:
        return
    if len(kept) < len(numbers):
        problem.accept(test.trials[kept])
