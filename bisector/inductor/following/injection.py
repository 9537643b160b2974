"""What the errors of one part of a graph carry to its outputs.

Eager is run with the errors that the compiled run made at some nodes added to their results: those of the
part alone, and those of all others. With all of them added eager gives what compiled gives. Nothing is
compiled for it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg

from ...core.graphinfo import layer_of
from ...core.shares import Carried, Part, Parts
from ...core.trace import NodeTrace
from .. import execute, naming
from ..execute import Outputs, Subject
from .taps import Edge, Tap

RUNNING_S = 6.0  # for all runs; the layers come first
MOST_NODES = 24  # of those whose own errors are largest, each by itself
REPORTED = 8  # nodes that are reported


@dataclass(frozen=True)
class Error:
    """What one value of the compiled run has more than is expected of it. instead: elements where that is no
    difference (an integer, a value that is not finite), and what it has there."""

    difference: torch.Tensor
    instead: tuple[torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def of(cls, actual: torch.Tensor, expected: torch.Tensor) -> Error | None:
        """None where the two are no values of one kind."""
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return None
        actual, expected = actual.detach(), expected.detach()
        if not actual.is_floating_point():
            return cls(torch.zeros(()), (actual != expected, actual.clone()))
        difference = actual.double() - expected.double()
        odd = ~difference.isfinite()
        if not bool(odd.any()):
            return cls(difference)
        return cls(difference.nan_to_num(0.0, 0.0, 0.0), (odd, actual.clone()))

    def added(self, value: torch.Tensor) -> torch.Tensor:
        """The value with the error."""
        if value.is_floating_point():
            value = (value.double() + self.difference).to(value.dtype)
        return value if self.instead is None else torch.where(*self.instead, value)


@dataclass
class Errors:
    """All that arose, by the value and by the gradient; nodes: whose they are, by the name in the trace."""

    forward: dict[Tap, Error] = field(default_factory=dict)
    backward: dict[Edge, Error] = field(default_factory=dict)
    nodes: dict[Tap | Edge, str] = field(default_factory=dict)

    def note(self, where: Tap | Edge, node: str, actual: Any, expected: Any) -> None:
        """Keep an error, if it can be added."""
        error = Error.of(actual, expected)
        if error is None:
            return
        self.nodes[where] = node
        if isinstance(where, Tap):
            self.forward[where] = error
        else:
            self.backward[where] = error

    def of(self, names: Collection[str]) -> Errors:
        """Those of some nodes."""
        return Errors(
            {tap: error for tap, error in self.forward.items() if self.nodes[tap] in names},
            {edge: error for edge, error in self.backward.items() if self.nodes[edge] in names},
        )


class _Plus(torch.autograd.Function):
    """A value, with errors added to it and to its gradient."""

    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, error: Error | None, of_gradient: Error | None
    ) -> torch.Tensor:
        ctx.of_gradient = of_gradient
        return value.clone() if error is None else error.added(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        made = gradient if ctx.of_gradient is None else ctx.of_gradient.added(gradient)
        return made, None, None


class Injected(torch.fx.Interpreter):
    """Runs a graph in eager with errors added. written: what a call writes into, by call."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        errors: Errors,
        written: Mapping[torch.fx.Node, Sequence[torch.fx.Node]],
    ) -> None:
        super().__init__(gm)
        self.errors = errors
        self.written = written

    def map_nodes_to_values(self, args: Any, n: torch.fx.Node) -> Any:
        return map_arg(args, lambda i: self._read(i, n))

    def _read(self, i: torch.fx.Node, reader: torch.fx.Node) -> Any:
        error = self.errors.backward.get(Edge(i.name, reader.name))
        return self.env[i] if error is None else _Plus.apply(self.env[i], None, error)

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        error = self.errors.forward.get(Tap(n.name, n.name))
        of_gradient = self.errors.backward.get(Edge(n.name))
        if error is not None or of_gradient is not None:
            result = _Plus.apply(result, error, of_gradient)
        for target in self.written.get(n, ()):
            written = self.errors.forward.get(Tap(n.name, target.name))
            if written is not None:
                # `data`, since autograd does not watch it: it may have kept the value for the backward pass.
                self.env[target].data.copy_(written.added(self.env[target].detach()))
        return result


@dataclass(frozen=True)
class Sharing:
    """What the shares are taken of: the outputs of eager and of the compiled run."""

    subject: Subject
    written: Mapping[torch.fx.Node, Sequence[torch.fx.Node]]
    errors: Errors
    eager: Outputs
    compiled: Outputs

    def parts(self, nodes: Sequence[NodeTrace]) -> Parts:
        """What there was no time for is missing."""
        ends = time.monotonic() + RUNNING_S
        held = set(self.errors.nodes.values())
        arising = [n for n in nodes if n.name in held]
        everything = self._part("", [n.name for n in arising])

        def parts_of(groups: Mapping[str, Sequence[str]]) -> list[Part]:
            return [self._part(name, members) for name, members in groups.items() if time.monotonic() < ends]

        largest = sorted(arising, key=lambda n: -n.local)[:MOST_NODES]
        layers, operations = parts_of(self._by_layer(arising)), parts_of(_by_operation(arising))
        most = parts_of({n.name: [n.name] for n in largest})
        most.sort(key=lambda part: -sum(carried.alone for carried in part.carried))
        return Parts(everything, tuple(layers), tuple(operations), tuple(most[:REPORTED]))

    def _by_layer(self, arising: Sequence[NodeTrace]) -> dict[str, list[str]]:
        nodes = {n.name: n for n in self.subject.edited.gm.graph.nodes}
        found: dict[str, list[str]] = {}
        for node in arising:
            if layer := _layer(nodes[node.of]):
                found.setdefault(layer, []).append(node.name)
        return found

    def _part(self, name: str, members: Collection[str]) -> Part:
        others = set(self.errors.nodes.values()) - set(members)
        alone, without = (self._outputs(self.errors.of(names)) for names in (members, others))
        return Part(name, tuple(members), tuple(self._carried(alone, without)))

    def _outputs(self, errors: Errors) -> Outputs:
        return execute.run(self.subject, Injected(self.subject.edited.gm, errors, self.written).run)

    def _carried(self, alone: Outputs, without: Outputs) -> Iterator[Carried]:
        for path, eager in self.eager.items():
            total = _square(self.compiled.get(path), eager)
            if total:
                left = _square(without.get(path), eager) / total
                yield Carried(path, _square(alone.get(path), eager) / total, left)


def _by_operation(arising: Sequence[NodeTrace]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in arising:
        found.setdefault(node.operation, []).append(node.name)
    return found


def _layer(node: torch.fx.Node) -> str:
    """Of an input that of what reads it first."""
    module = naming.module_of(node)
    for user in node.users:
        module = module or naming.module_of(user)
    return layer_of(module)


def _square(value: Any, eager: Any) -> float:
    """Mean square of the difference; of what has no rounding the part of the elements that differ."""
    if not isinstance(value, torch.Tensor) or not isinstance(eager, torch.Tensor) or not eager.numel():
        return 0.0
    if value.shape != eager.shape:
        return 0.0
    if not eager.is_floating_point():
        return float((value != eager).double().mean())
    difference = value.double() - eager.double()
    return float(difference[difference.isfinite()].square().sum()) / eager.numel()
