"""Where a difference arises and where it grows: what two runs of one graph say, node by node.

The compiled program hands out its intermediate values. Eager's own operation, applied to the values that
the compiled run had, says what the node should have made of them: what compiled has instead is the error
that arises there, and what eager's operation makes of the difference of its inputs is the gain.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .decision import BACKWARD
from .shares import Parts

GRADIENT = "grad["  # begins the path of a gradient, and the name of a sum of gradients


class Reach(enum.Enum):
    """How far a run is followed."""

    FORWARD = "forward"
    BACKWARD = "backward"  # its gradients too


@dataclass(frozen=True)
class NodeTrace:
    """One call of the graph, or what the backward pass makes of it, as the two runs saw it.

    name: `bwd.NAME` for what the backward pass of the call NAME gives to the call's inputs, `grad[NAME]` for
    the sum of the gradients of a value that several calls read.

    seen: the compiled run's own value is known; otherwise it was taken for what eager's operation gives, so
    that an error of this node shows at the nodes that read it.
    arises: on equal inputs the two give other bits. local_ulp: by how many steps of the dtype, at most
    (at the scale of the whole result where many terms are summed; 1 for each unit of an integer).
    local: the same relative to the largest element. beyond: it is more than rounding.
    wrong: beyond, eager's own result is as near to float64 as rounding leaves it, and no rounding of the
    inputs that compiled left out explains it. eager_ulp: how far eager's own result is from float64, in the
    same steps; None where that was not asked.
    gain: relative difference of the result over that of the inputs; None where the inputs are equal or the
    result is only another view of one of them.
    difference: between the two runs' results, relative to the largest element.
    """

    name: str
    op: str
    where: str
    reads: tuple[str, ...]
    seen: bool
    arises: bool = False
    local_ulp: float = 0.0
    local: float = 0.0
    beyond: bool = False
    gain: float | None = None
    difference: float = 0.0
    wrong: bool = False
    eager_ulp: float | None = None

    @property
    def is_gradient(self) -> bool:
        """Whether it is about the backward pass."""
        return self.of != self.name

    @property
    def operation(self) -> str:
        """Its operation, marked where it is of the backward pass."""
        return f"{self.op} (backward)" if self.is_gradient and not self.op.endswith("_backward") else self.op

    @property
    def of(self) -> str:
        """The node of the graph that it is about."""
        return value_of(self.name)


def value_of(name: str) -> str:
    """The node of the graph that a name in a trace is about."""
    if name.startswith(GRADIENT):
        return name.removeprefix(GRADIENT).removesuffix("]")
    return name.removeprefix(BACKWARD)


@dataclass(frozen=True)
class Trace:
    """The nodes in the order they run.

    ends: by path (`output[0]`, `grad[x]`, `mutated[x]`) the node whose value it is; what is no value of a
    node, or was not followed, is missing. parts: what they carry.
    """

    nodes: tuple[NodeTrace, ...]
    ends: Mapping[str, str]
    parts: Parts = field(default_factory=Parts)

    def output(self, path: str) -> NodeTrace | None:
        """The node of a path; None for what was not followed."""
        return next((n for n in self.nodes if n.name == self.ends.get(path)), None)

    def behind(self, paths: Iterable[str]) -> tuple[NodeTrace, ...]:
        """The nodes that these outputs depend on, in the order they run."""
        by_name = {n.name: n for n in self.nodes}
        work = [node.name for path in paths if (node := self.output(path)) is not None]
        found: set[str] = set()
        while work:
            name = work.pop()
            if name not in found and name in by_name:
                found.add(name)
                work.extend(by_name[name].reads)
        return tuple(n for n in self.nodes if n.name in found)


# A difference that is this many times the sum of all that arises has been amplified on the way: rounding
# errors of a program without steps and cancellations at most add up.
AMPLIFIED = 10.0
GROWS = 2.0  # a smaller gain is no place where a difference grows


def origin(nodes: Sequence[NodeTrace]) -> NodeTrace | None:
    """The first node where more than rounding arises; where none does, the first that rounds otherwise."""
    arising = [n for n in nodes if n.arises]
    return next((n for n in arising if n.beyond), arising[0] if arising else None)


def rounding_alone(nodes: Sequence[NodeTrace]) -> bool:
    """Whether all that arises at these nodes is rounding, or rounding that one of the two leaves out."""
    return all(n.seen for n in nodes) and any(n.arises for n in nodes) and not any(n.wrong for n in nodes)


def amplifier(nodes: Sequence[NodeTrace]) -> NodeTrace | None:
    """The node of the largest gain, the first of equal ones; None where none at least doubles."""
    growing = [n for n in nodes if n.gain is not None and n.gain >= GROWS]
    return max(growing, key=lambda n: n.gain or 0.0) if growing else None


def amplified(trace: Trace, paths: Sequence[str]) -> bool | None:
    """Whether these outputs differ by rounding that was amplified; None where the trace does not tell.

    True: at every node no more than rounding arises, and an output differs by far more than all of it.
    """
    nodes = trace.behind(paths)
    ends = [end for path in paths if (end := trace.output(path)) is not None]
    if len(ends) < len(paths) or not any(n.arises for n in nodes):
        return None
    if any(n.beyond for n in nodes):
        return False if all(n.seen for n in nodes) else None
    return any(_grown(path, end, trace) for path, end in zip(paths, ends, strict=True))


def _grown(path: str, end: NodeTrace, trace: Trace) -> bool:
    arisen = sum(n.local for n in trace.behind([path]))
    return end.difference > AMPLIFIED * arisen
