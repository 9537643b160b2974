"""A graph without torch, nodes with names and shapes; and a subject that diverges as one line says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bisector.core.case import WHOLE, Case
from bisector.core.graphinfo import GraphInfo, NodeInfo
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.core.reduction.problem import Problem, Trial
from bisector.core.reduction.reduce import reduce
from tests.core.measurements import judged


class NoGraph(Exception):
    """The edits do not make a graph: in a real subject the probe is UNRESOLVED."""


@dataclass(frozen=True)
class Graph:
    """windows: what slices kept of an input's dimension, in its captured indices. values: simplified.
    arguments: what stands instead of what a node read.

    inside: the names of a composite's parts, in the order they run, each reading the one before."""

    nodes: tuple[NodeInfo, ...]
    outputs: tuple[str, ...]
    windows: dict[tuple[str, int], range] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    arguments: dict[tuple[str, int | str], str] = field(default_factory=dict)
    inside: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def computed(self) -> set[str]:
        """The calls, the parts of composites among them."""
        return {part for call in self.calls for part in self.inside.get(call, (call,))}

    @property
    def calls(self) -> set[str]:
        return {n.name for n in self.nodes if n.op == "call"}

    @property
    def info(self) -> GraphInfo:
        return GraphInfo(self.nodes, self.outputs, n_ops=len(self.computed))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.info.node(name).shape or ()

    def indices(self, name: str, dim: int) -> range:
        """Which of the captured ones a dimension has left."""
        return self.windows.get((name, dim), range(self.shape(name)[dim]))

    def apply(self, case: Case) -> Graph:
        if case == WHOLE:
            return self
        base = self.apply(case.base) if case.base else self
        for name in case.unfuse:
            base = base._unfused(name)
        return base._edited(case)

    def _unfused(self, name: str) -> Graph:
        nodes: list[NodeInfo] = []
        for node in self.nodes:
            if node.name != name:
                nodes.append(node)
                continue
            reads = node.reads
            for part in self.inside[name]:
                nodes.append(replace(node, name=part, reads=reads, parts=1))
                reads = (part,)
        return replace(self, nodes=tuple(nodes), inside={k: v for k, v in self.inside.items() if k != name})

    def _edited(self, case: Case) -> Graph:
        kept = [self._cut(n) if n.name in case.cut else n for n in self.nodes]
        kept = [_reading_less(n, {p for name, p, _ in case.arguments if name == n.name}) for n in kept]
        others = dict(case.bypass)
        kept = [
            replace(n, reads=tuple(_follow(r, others) for r in n.reads)) for n in kept if n.name not in others
        ]
        outputs = case.outputs or tuple(_follow(name, others) for name in self.outputs)
        known = {n.name for n in self.nodes}
        if not {*case.cut, *case.outputs, *others, *others.values()} <= known:
            raise NoGraph
        needed = GraphInfo(tuple(kept), outputs).ancestors(outputs)
        alive = tuple(n for n in kept if n.name in needed or (n.writes and n.reads[0] in needed))
        return replace(self, nodes=alive, outputs=outputs)._sliced(case)

    def _cut(self, node: NodeInfo) -> NodeInfo:
        return replace(node, op="input", reads=())

    def _sliced(self, case: Case) -> Graph:
        """Shapes follow the inputs: a call has the shape of the first thing it reads."""
        windows = dict(self.windows)
        shapes = {n.name: n.shape for n in self.nodes}
        for s in case.slices:
            if s.input not in shapes:
                continue
            kept = self.indices(s.input, s.dim)
            end = s.start + (s.length - 1) * s.step + 1
            if end > len(kept):
                raise NoGraph
            windows[s.input, s.dim] = kept[s.start : end : s.step]
            shapes[s.input] = tuple(
                s.length if d == s.dim else n for d, n in enumerate(shapes[s.input] or ())
            )
        for node in self.nodes:
            if node.op == "call" and node.reads:
                shapes[node.name] = shapes[node.reads[0]]
        nodes = tuple(
            replace(
                n,
                shape=shapes[n.name],
                dtype=case.dtype or n.dtype,
                contiguous=n.contiguous or n.name in case.contiguous,
            )
            for n in self.nodes
        )
        arguments = self.arguments | {(name, place): instead for name, place, instead in case.arguments}
        values = {**self.values, **dict(case.values)}
        return replace(self, nodes=nodes, windows=windows, values=values, arguments=arguments)


def _reading_less(node: NodeInfo, places: set[int | str]) -> NodeInfo:
    gone = {name for place, name in (*node.optional, *node.numeric) if place in places}
    return replace(
        node,
        reads=tuple(r for r in node.reads if r not in gone),
        optional=tuple(a for a in node.optional if a[0] not in places),
        numeric=tuple(a for a in node.numeric if a[0] not in places),
    )


def _follow(name: str, others: dict[str, str]) -> str:
    while name in others:
        name = others[name]
    return name


def graph(reads: dict[str, str], outputs: str, shape: tuple[int, ...] = (4,), odd: str = "") -> Graph:
    """`{"a": "x y"}`: the call `a` reads `x` and `y`; who reads nothing is an input; `a_` writes into `x`.

    odd: inputs that are not contiguous."""
    nodes = [
        NodeInfo(
            name=name,
            op="call" if read else "input",
            target=name,
            reads=tuple(read.split()),
            shape=shape,
            dtype="float32",
            writes=name.endswith("_"),
            contiguous=name not in odd.split(),
        )
        for name, read in reads.items()
    ]
    return Graph(tuple(nodes), tuple(outputs.split()))


def composite(whole: Graph, name: str, parts: tuple[str, ...]) -> Graph:
    """The graph with that call made of these parts; the last of them has its name."""
    nodes = tuple(replace(n, parts=len(parts)) if n.name == name else n for n in whole.nodes)
    return replace(whole, nodes=nodes, inside={**whole.inside, name: parts})


def chain(n: int, shape: tuple[int, ...] = (4,)) -> Graph:
    """x -> n0 -> n1 -> …"""
    reads = {"x": ""} | {f"n{i}": f"n{i - 1}" if i else "x" for i in range(n)}
    return graph(reads, f"n{n - 1}", shape)


Diverges = Callable[[Graph], Outcome]


@dataclass
class Subject:
    """Diverges where the one line says FAIL. asked: every case, in order."""

    whole: Graph
    diverges: Diverges
    worst: Callable[[Graph], tuple[int, ...]] = lambda graph: ()
    asked: list[Case] = field(default_factory=list)
    most: int = 10_000  # questions; more than any reduction of these graphs has a reason to ask

    def problem(self) -> Problem:
        default = self.result(self.whole, Outcome.FAIL)
        return Problem(WHOLE, default, self.interesting, self.describe, at_once=self.at_once)

    def describe(self, case: Case) -> GraphInfo:
        return self.whole.apply(case).info

    def at_once(self, cases: Sequence[Case]) -> Trial | None:
        trials = [self.interesting(case) for case in cases]
        return next((trial for trial in trials if trial.outcome is Outcome.FAIL), None)

    def interesting(self, case: Case) -> Trial:
        self.asked.append(case)
        assert len(self.asked) <= self.most, "the reduction does not end"
        try:
            smaller = self.whole.apply(case)
        except NoGraph:
            return Trial(case, Outcome.UNRESOLVED, ProbeResult(Outcome.UNRESOLVED, Message("no such graph")))
        outcome = self.diverges(smaller)
        return Trial(case, outcome, self.result(smaller, outcome))

    def result(
        self, smaller: Graph, outcome: Outcome, worst: tuple[int, ...] | None = None
    ) -> ProbeResult:
        if outcome is not Outcome.FAIL:
            return judged(outcome)
        shape = smaller.shape(smaller.outputs[0])
        worst = self.worst(smaller) if worst is None else worst
        measured = OutputMeasurement(0, "output[0]", "float32", shape, 1, worst=worst)
        signature = Signature("output[0]", DivergenceKind.VALUE)
        return judged(outcome, "", Measurement(outputs=(measured,)), (signature,))


def where(holds: Callable[[Graph], bool]) -> Diverges:
    return lambda g: Outcome.FAIL if holds(g) else Outcome.PASS


def needs(*names: str) -> Diverges:
    """Diverges while these nodes are computed."""
    return where(lambda g: g.calls >= set(names))


def reduced(subject: Subject, run: Callable[[Problem], None] = reduce) -> Graph:
    problem = subject.problem()
    run(problem)
    return subject.whole.apply(problem.case)
