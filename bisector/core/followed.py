"""The compiled run followed node by node: where the divergence arises and grows, call by call."""

from __future__ import annotations

from dataclasses import dataclass

from .dtypes import EPS, FLOATS
from .graphinfo import GraphInfo
from .notes import Note
from .trace import NodeTrace, Trace


@dataclass(frozen=True)
class FollowedNode:
    """A call, as `result.json` has it. where: the user's file:line. module: its path in the model. reads: the
    calls and inputs that it reads. gradient: of the backward pass. seen: compiled's own value is known.

    ulp: the error that arises there, on equal inputs, in units in the last place, 0 where there is none.
    carried_ulp: the difference of the two runs' values, in units of the largest element; None for a dtype
    without rounding. gain: as of NodeTrace.
    """

    name: str
    op: str
    where: str
    module: str
    reads: tuple[str, ...]
    shape: tuple[int, ...] | None
    dtype: str | None
    gradient: bool
    seen: bool
    ulp: float
    carried_ulp: float | None
    gain: float | None


@dataclass(frozen=True)
class FollowedGraph:
    """nodes: in the order they run. outputs: by path, the node that it is."""

    nodes: tuple[FollowedNode, ...]
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Followed:
    """trace: what was seen, None where nothing was. graph: the same with what is known of the case's nodes.
    notes: why not, or what the trace leaves open."""

    trace: Trace | None = None
    graph: FollowedGraph | None = None
    origin: NodeTrace | None = None
    amplifier: NodeTrace | None = None
    notes: tuple[Note, ...] = ()


def followed_graph(info: GraphInfo, trace: Trace) -> FollowedGraph:
    """info: of the case that was followed."""
    known = {node.name: node for node in info.nodes}

    def node_of(traced: NodeTrace) -> FollowedNode:
        of = known.get(traced.of)
        dtype = None if of is None else of.dtype
        unit = EPS[dtype] if dtype in FLOATS else None
        return FollowedNode(
            traced.name,
            traced.op,
            traced.where,
            "" if of is None else of.module,
            traced.reads,
            None if of is None else of.shape,
            dtype,
            traced.is_gradient,
            traced.seen,
            traced.local_ulp if traced.arises else 0.0,
            None if unit is None else traced.difference / unit,
            traced.gain,
        )

    return FollowedGraph(tuple(map(node_of, trace.nodes)), tuple(sorted(trace.ends.items())))
