"""Passes that make the graph smaller: fewer outputs, nothing but the nodes that the decisions are about, a
later start, an earlier end, nodes taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..case import Case
from ..graphinfo import GraphInfo, NodeInfo
from ..model import family
from ..outcome import Outcome
from ..search.ordered import first_failing
from .problem import Problem
from .regions import downstream

# A graph of which this many nodes in a row are needed is one where nearly all are (a recurrence).
GIVE_UP_AFTER = 12
MUTATED = "mutated"  # the family of an input that is written into
EASILY_READ = 4  # calls; of so few each is tried alone
FEW_CALLS = 8  # so many that all edits of one call are asked about at once
# All at once, then halves, then quarters; what is left is for the pass that takes out single nodes.
JUMP_ROUNDS = 3


def keep_one_output(problem: Problem) -> None:
    """Return only one of the outputs that diverge, or of the inputs that are written into."""
    shown = {f"output[{i}]": name for i, name in enumerate(problem.info.outputs) if name is not None}
    written = [o.path for o in problem.default.measurement.outputs if family(o.path) == MUTATED]
    shown |= {path: path.removeprefix(f"{MUTATED}[").removesuffix("]") for path in written}
    if len(set(shown.values())) < 2:
        return
    diverging = [shown[s.path] for s in problem.default.signatures if s.path in shown]
    names = diverging or [name for path, name in shown.items() if path not in written]
    cases = [_returning(problem.case, name) for name in dict.fromkeys(names)]
    if problem.case not in cases:  # else it returns one of them already, and the others are no smaller
        problem.first_interesting(cases)


def end_earlier(problem: Problem) -> None:
    """Return a node that already diverges and depends on the least, by bisection over what the output depends
    on."""
    info = problem.info
    names = [name for name in info.outputs if name is not None]
    if len(names) != 1:
        return
    upstream = info.ancestors((names[0],))
    ends = [n.name for n in info.calls if n.name in upstream and n.is_tensor and not n.writes]
    ends = [name for name in ends if name == names[0] or _can_diverge(problem, info, name)]
    # An earlier node can depend on more of the graph than a later one, on another branch.
    ends.sort(key=info.dependencies().__getitem__)
    if len(ends) < 2 or ends[-1] != names[0]:
        return
    _bisect(problem, len(ends), lambda base, i: _returning(base, ends[i - 1]))


def _can_diverge(problem: Problem, info: GraphInfo, end: str) -> bool:
    """Whether the graph up to there has all that is needed, and the two runs were not seen to give the same
    there."""
    if problem.values is not None and end in problem.values.equal:
        return False
    return problem.needed & {n.name for n in info.calls} <= info.ancestors((end,))


def start_later(problem: Problem) -> None:
    """Turn what comes before the latest sufficient point into inputs that hold eager's values."""
    info = problem.info
    calls = [n.name for n in info.calls]
    # From no node cut (test(n), known interesting) to all but the last one cut.
    _bisect(problem, len(calls), lambda base, i: base.with_cut(*frontier(info, set(calls[: len(calls) - i]))))


def frontier(info: GraphInfo, before: set[str]) -> list[str]:
    """The nodes of `before` that what comes after reads."""
    read: set[str] = {name for name in info.outputs if name in before and name is not None}
    for node in info.calls:
        if node.name not in before:
            read |= set(node.reads) & before
    return sorted(read)


def take_out_runs(problem: Problem) -> None:
    """Runs of neighbours at once: whatever reads one of them reads on past all of them. Halves of what is
    there first, then of that, down to pairs; between two nodes that are needed there can be hundreds."""
    size, misses = len(problem.info.calls), 0
    if size <= EASILY_READ:
        return
    while size > 2:
        size = (size + 1) // 2
        end = len(problem.info.calls)
        while end > 0 and misses < GIVE_UP_AFTER:
            info = problem.info
            run = info.calls[max(0, end - size) : end]
            end -= size
            taken = problem.first_interesting(_past(problem.case, info, run))
            misses = 0 if taken else misses + 1


def stand_ins(node: NodeInfo, read: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Of what a node reads, what can be read in its place: tensors of its dtype, of its shape if any is."""
    fitting = [o for o in read if o.is_tensor and o.dtype == node.dtype and o.op != "constant"]
    return [o for o in fitting if o.shape == node.shape] or fitting


def _past(case: Case, info: GraphInfo, run: Sequence[NodeInfo]) -> list[Case]:
    """Without the run: what it reads from farthest away takes its place, or what it reads from nearest."""
    order = {n.name: i for i, n in enumerate(info.nodes)}
    cases = []
    for choose in (min, max):
        edited = case
        for node in run:
            if not node.is_tensor or node.writes or node.name in info.outputs:
                continue
            substitutes = stand_ins(node, [info.node(r) for r in node.reads])
            if substitutes:
                edited = edited.with_bypass(node.name, choose(substitutes, key=lambda o: order[o.name]).name)
        if edited != case:
            cases.append(edited)
    return list(dict.fromkeys(cases))


def take_out_nodes(problem: Problem) -> None:
    """Each node: read one of its inputs instead, or make it an input; then its producers fall away too.

    Latest first: what is taken out near the output frees all that it depended on.
    """
    tried: set[str] = set()
    misses = 0
    while misses < GIVE_UP_AFTER:
        info = problem.info
        node = next((n for n in reversed(info.calls) if n.name not in tried and n.is_tensor), None)
        if node is None:
            return
        tried.add(node.name)
        taken = problem.first_interesting(_without(problem.case, info, node))
        misses = 0 if taken else misses + 1


def take_out_each(problem: Problem) -> None:
    """Of a graph of few calls: all between the decisive ones and the output, an earlier end, each call on
    its own; what is left to ask is asked at once. An edit that failed is asked once more of the smallest
    graph."""
    tried: set[_Edit] = set()
    taken = False
    while 1 < len(problem.info.calls) <= FEW_CALLS:
        fresh = {edit: case for edit, case in _edits(problem) if edit not in tried}
        tried |= fresh.keys()
        if problem.first_at_once(fresh.values()) or problem.first_at_once(_without_pairs(problem)):
            taken = True
        elif taken:
            tried, taken = set(), False
        else:
            return


_Edit = tuple[str, ...]  # what it is, and the nodes that it is about


def _edits(problem: Problem) -> Iterator[tuple[_Edit, Case]]:
    info, case = problem.info, problem.case
    for pairs in _jumps(problem):
        yield ("bypass", *(name for pair in pairs for name in pair)), _bypassed(case, pairs)
    if len(info.outputs) == 1:
        for node in info.calls:
            able = node.is_tensor and not node.writes and node.name not in info.outputs
            if able and _can_diverge(problem, info, node.name):
                yield ("end", node.name), _returning(case, node.name)
    for node in reversed(info.calls):
        if node.is_tensor:
            for at, without in enumerate(_without(case, info, node)):
                yield ("without", node.name, str(at)), without


def _without_pairs(problem: Problem) -> Iterator[Case]:
    """Each two neighbours at once, where a graph is not easily read yet."""
    calls = problem.info.calls
    for at in range(len(calls) - 1 if len(calls) > EASILY_READ else 0):
        yield from _past(problem.case, problem.info, calls[at : at + 2])


def _jumps(problem: Problem) -> list[list[tuple[str, str]]]:
    """All nodes between the decisive ones and the output, and each half of them."""
    info = problem.info
    decisive = problem.decisive & {n.name for n in info.calls}
    if not decisive or len(info.outputs) != 1:
        return []
    between = _bypasses(info, decisive, downstream(info, decisive))
    middle = (len(between) + 1) // 2
    parts = [between, between[:middle], between[middle:]]
    return [part for part in parts if len(part) > 1]


def _without(case: Case, info: GraphInfo, node: NodeInfo) -> Iterator[Case]:
    if node.name in info.outputs:
        return  # returning an earlier node is end_earlier's job
    others = [info.node(name) for name in node.reads]
    for other in others:
        if other.shape == node.shape and other.dtype == node.dtype and other.op != "constant":
            yield case.with_bypass(node.name, other.name)
    if node.reads and not node.writes:
        yield case.with_cut(node.name)
    # What follows may take any shape (a chain of pointwise calls): eager soon says where it does not.
    for other in others[:1]:
        if other.is_tensor and other.shape != node.shape and other.dtype == node.dtype:
            yield case.with_bypass(node.name, other.name)


def _returning(case: Case, name: str) -> Case:
    return replace(case, outputs=(name,))


def _bisect(problem: Problem, n: int, make: Callable[[Case, int], Case]) -> None:
    """Accept make(i) for a small i that is interesting; make(n) is the case as it stands."""
    base = problem.case

    def test(i: int) -> Outcome:
        case = make(base, i)
        if case == base:
            return Outcome.UNRESOLVED  # an edit that edits nothing is no progress
        if problem.leaves_out_needed(case):
            return Outcome.PASS
        trial = problem.interesting(case)
        if trial.outcome is Outcome.FAIL:
            problem.accept(trial)
        return trial.outcome

    if n > 1 and test(1) is not Outcome.FAIL:
        first_failing(n - 1, lambda i: test(i + 1))


def keep_decisive_nodes(problem: Problem) -> None:
    """Cut before the decisive nodes, and take out what stands between them and the output."""
    info = problem.info
    names = {n.name for n in info.calls}
    decisive = problem.decisive & names
    if not decisive or len(info.outputs) != 1 or info.outputs[0] is None:
        return
    after = downstream(info, decisive)
    if info.outputs[0] not in after:
        return
    between = _bypasses(info, decisive, after)
    cut = sorted(
        {r for n in info.calls if n.name in after for r in n.reads if r in names and r not in after}
    )
    if (cut or between) and problem.first_interesting([_bypassed(problem.case.with_cut(*cut), between)]):
        return
    size = len(between)
    for _ in range(JUMP_ROUNDS):
        if size < 2:
            return
        size = (size + 1) // 2
        parts = [between[i : i + size] for i in range(0, len(between), size)]
        for part in parts:
            if problem.first_interesting([_bypassed(problem.case, part)]):
                between = [pair for pair in between if pair not in part]


def _bypasses(info: GraphInfo, decisive: frozenset[str], after: set[str]) -> list[tuple[str, str]]:
    """(node, input to read instead) for each node between, latest first: the input that a decisive node
    leads to, of the same shape if there is a choice. Another dtype would be another program."""
    pairs = []
    for node in reversed(info.calls):
        if node.name not in after or node.name in decisive or node.name in info.outputs:
            continue
        others = stand_ins(node, [info.node(r) for r in node.reads if r in after])
        if others and not node.writes:
            pairs.append((node.name, others[0].name))
    return pairs


def _bypassed(case: Case, pairs: list[tuple[str, str]]) -> Case:
    for node, other in pairs:
        case = case.with_bypass(node, other)
    return case
