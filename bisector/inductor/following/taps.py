"""A captured graph that returns its intermediate values as well, and which of them it can return.

For gradients it adds zeros of inputs of their own to the values: the gradient of such a zero is that of the
value. It is a negative zero, which changes no float that it is added to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from .. import tensors
from ..equality import same
from ..execute import Outputs, Subject
from ..generators import Generators
from ..graph import liveness

MOST_BYTES = 1 << 30  # of intermediate values; two programs' are held side by side
MOST_COPIED = 1 << 20  # elements of a value that is compared with what it was


class NotTraced(Exception):
    """The graph cannot be followed node by node; the message says why."""


@dataclass(frozen=True)
class Tap:
    """A value that is returned: the result of a node, or what the node has written into another one's."""

    node: str
    of: str


@dataclass(frozen=True)
class Edge:
    """A gradient that is returned: of all that reads a node's value, or of one reader alone."""

    node: str
    reader: str | None = None


class Values(torch.fx.Interpreter):
    """Runs a graph in eager and notes of each call whether its result has memory of its own, what writes into
    it later, and whether it is differentiable.

    own: nodes with such a result; makers: of tuples of such tensors. written: what a call writes into;
    overwritten: the nodes into whose memory one may do so later. writers: by node, the calls that had written
    into what it reads; last: by node, the last call that writes into its memory. zeros: makes, by
    differentiable node, what can be added to its value. drawn: the states of the random generators before
    each call that draws; generators: those after the last that did, None before the run.
    """

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.own: set[torch.fx.Node] = set()
        self.makers: set[torch.fx.Node] = set()
        self.bytes = 0
        self.overwritten: set[torch.fx.Node] = set()
        self.written: dict[torch.fx.Node, list[torch.fx.Node]] = {}
        self.writers: dict[torch.fx.Node, list[str]] = {}
        self.last: dict[torch.fx.Node, str] = {}
        self.zeros: dict[torch.fx.Node, Callable[[], torch.Tensor]] = {}
        self.drawn: dict[torch.fx.Node, Generators] = {}
        self.generators: Generators | None = None
        self._at: dict[int, list[torch.fx.Node]] = {}  # by memory, the nodes whose values have lain there

    def run_node(self, n: torch.fx.Node) -> Any:
        storages = {_storage(v) for v in pytree.tree_leaves([self.env[i] for i in n.all_input_nodes])}
        earlier = [self.last[i] for i in n.all_input_nodes if i in self.last]
        targets = liveness.written(n) if n.op.startswith("call") else []
        before = [_Before(self.env.get(target)) for target in targets]
        before_draws = self.generators = self.generators or Generators()
        result = super().run_node(n)
        if before_draws.drawn():
            self.drawn[n], self.generators = before_draws, Generators()
        leaves = pytree.tree_leaves(result)
        if n.op.startswith("call"):
            fresh = [v for v in leaves if _storage(v) not in {None, *storages}]
            self.bytes += tensors.nbytes(fresh)
            if isinstance(result, torch.Tensor) and (fresh or self._is_part(n)):
                self.own.add(n)
            elif fresh:
                self.makers.add(n)
        if isinstance(result, torch.Tensor) and result.requires_grad and result.is_floating_point():
            like = torch.empty_like(result, device="meta", requires_grad=False)
            self.zeros[n] = partial(torch.full_like, like, -0.0, device=result.device)
        self.writers[n] = list(dict.fromkeys(earlier))
        for memory in {_storage(v) for v in leaves} - {None}:
            self._at.setdefault(memory or 0, []).append(n)
        for target, held in zip(targets, before, strict=True):
            if held.was_written():
                self.written.setdefault(n, []).append(target)
                self._note_write(n, target)
        return result

    def _note_write(self, n: torch.fx.Node, target: torch.fx.Node) -> None:
        for memory in {_storage(v) for v in pytree.tree_leaves(self.env.get(target))} - {None}:
            for node in self._at.get(memory or 0, ()):
                if node is not n:
                    self.overwritten.add(node)
                self.last[node] = n.name

    def _is_part(self, n: torch.fx.Node) -> bool:
        return n.target is operator.getitem and n.args[0] in self.makers

    @property
    def writes(self) -> bool:
        """Whether any call writes into a value."""
        return bool(self.written)


class _Before:
    """A value before a call that may write into it. Torch counts writes, but not in inference mode, and not
    those of a normalization into its running statistics."""

    def __init__(self, value: Any) -> None:
        self.value = value
        if isinstance(value, torch.Tensor):
            self.counted = None if value.is_inference() else value._version
            small = value.numel() <= MOST_COPIED
            self.copy = tensors.snapshot([value])[0] if small else None

    def was_written(self) -> bool:
        """Whether it is another now; a large one counts as written where torch does not tell."""
        if not isinstance(self.value, torch.Tensor):
            return False
        if self.counted is not None and self.value._version != self.counted:
            return True
        if self.copy is None:
            return self.counted is None
        return not same(self.copy, self.value)


def _storage(value: Any) -> int | None:
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return value.untyped_storage().data_ptr() or None
    return None


@dataclass(frozen=True)
class Tapped:
    """names: of the nodes that the graph's own outputs are, None for what is no node. taps: what it returns
    after these, in that order. edges: the gradients, one for each input that it takes after its own."""

    subject: Subject
    names: tuple[str | None, ...]
    taps: tuple[Tap, ...]
    edges: tuple[Edge, ...] = ()

    def values(self, outputs: Outputs) -> dict[Tap, Any]:
        """What a run returned, by tap."""
        returned = [outputs[f"output[{i}]"] for i in range(len(self.names) + len(self.taps))]
        named = zip(self.names, returned, strict=False)
        own = {Tap(name, name): value for name, value in named if name is not None}
        # Of an output that is written into later the copy has the value that the node gave.
        return own | dict(zip(self.taps, returned[len(self.names) :], strict=True))

    def gradients(self, outputs: Outputs) -> dict[Edge, Any]:
        """The gradients that a run left, by edge: those of the graph's own inputs too."""
        names = self.subject.names
        own = names[: len(names) - len(self.edges)]
        edges = [*map(Edge, own), *self.edges]
        return {edge: outputs.get(f"grad[{name}]") for edge, name in zip(edges, names, strict=True)}


def tapped(
    subject: Subject, values: Values, left_out: Collection[str], gradients: Collection[torch.fx.Node] = ()
) -> Tapped:
    """The subject with a graph that returns every intermediate tensor but those of the nodes `left_out`, and
    has the gradients of these nodes.

    Not returned: views, which are exact. A value that a later call writes into is copied before.
    Raises NotTraced where the values are too large.
    """
    if values.bytes > MOST_BYTES:
        raise NotTraced(f"its intermediate values take {values.bytes >> 20} MiB")
    return _Building(subject, values, left_out, gradients).done()


@dataclass
class _Building:
    """A graph under construction. copies: what stands for each node of the old one; read: the same as one
    reader sees it."""

    subject: Subject
    values: Values
    left_out: Collection[str]
    gradients: Collection[torch.fx.Node]
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    copies: dict[torch.fx.Node, torch.fx.Node] = field(default_factory=dict)
    read: dict[tuple[torch.fx.Node, torch.fx.Node], torch.fx.Node] = field(default_factory=dict)
    taps: list[tuple[Tap, torch.fx.Node]] = field(default_factory=list)
    edges: list[tuple[Edge, torch.fx.Node, torch.fx.Node]] = field(default_factory=list)

    def done(self) -> Tapped:
        old = self.subject.edited.gm
        self.needed = liveness.needed(old)
        self.returned = tensors.as_list(old.graph.output_node().args[0])
        nodes = [node for node in old.graph.nodes if node.op != "output"]
        self._inputs([node for node in nodes if node.op == "placeholder"])
        for node in nodes:
            if node.op != "placeholder":
                self._copied(node)
                self._tap(node)
        ends = [self.copies[v] if isinstance(v, torch.fx.Node) else v for v in self.returned]
        # The loss does not come of them: without this a gradient of zeros would be added to each.
        shown = [value for _, value in self.taps]
        if self.subject.train:
            shown = [self.graph.call_method("detach", (value,)) for value in shown]
        self.graph.output((*ends, *shown))
        return self._tapped(old)

    def _inputs(self, placeholders: Sequence[torch.fx.Node]) -> None:
        """All of them first: what is added comes after the graph's own."""
        for node in placeholders:
            self.copies[node] = self.graph.node_copy(node)
        for node in self.subject.edited.gm.graph.nodes:
            if node in self.gradients:
                readers = [user.name for user in node.users if user in self.needed and user.op != "output"]
                # An input has a gradient of its own.
                ends = [] if node.op == "placeholder" else [None]
                several = len(readers) > 1 or node in self.returned
                for reader in [*ends, *(readers if several else [])]:
                    zero = self.graph.placeholder(f"zero_{len(self.edges)}")
                    self.edges.append((Edge(node.name, reader), node, zero))
        for node in placeholders:
            self._with_zeros(node)

    def _copied(self, node: torch.fx.Node) -> None:
        self.copies[node] = self.graph.node_copy(
            node, lambda read: self.read.get((read, node), self.copies[read])
        )
        self._with_zeros(node)

    def _with_zeros(self, node: torch.fx.Node) -> None:
        for edge, of, zero in self.edges:
            if of is node:
                summed = self.graph.call_function(torch.add, (self.copies[node], zero))
                if edge.reader is None:
                    self.copies[node] = summed
                else:
                    reader = next(user for user in node.users if user.name == edge.reader)
                    self.read[node, reader] = summed

    def _tap(self, node: torch.fx.Node) -> None:
        if node not in self.needed:
            return
        if node.name in self.left_out and node not in self.values.drawn:  # what is drawn must be seen
            return
        overwritten = node in self.values.overwritten
        if node in self.values.own and (overwritten or node not in self.returned):
            self.taps.append((Tap(node.name, node.name), self._now(node, overwritten)))
        for target in self.values.written.get(node, ()):
            self.taps.append((Tap(node.name, target.name), self._now(target, True)))

    def _now(self, node: torch.fx.Node, copied: bool) -> torch.fx.Node:
        value = self.copies[node]
        return self.graph.call_function(torch.clone, (value,)) if copied else value

    def _tapped(self, old: torch.fx.GraphModule) -> Tapped:
        gm = torch.fx.GraphModule(old, self.graph)
        gm.meta = dict(old.meta)
        edited = self.subject.edited
        zeros = [self.values.zeros[of]() for _, of, _ in self.edges]
        edited = replace(
            edited,
            gm=gm,
            args=[*edited.args, *zeros],
            requires_grad=[*edited.requires_grad, *(True for _ in zeros)],
        )
        whole = self.subject.whole and not zeros  # Dynamo's fake inputs have none for these
        return Tapped(
            replace(self.subject, edited=edited, whole=whole, own_outputs=len(self.returned)),
            tuple(self.subject.edited.output_names()),
            tuple(tap for tap, _ in self.taps),
            tuple(edge for edge, _, _ in self.edges),
        )
