"""The backward pass followed: what each operation of eager gives to its inputs for the gradient that the
compiled run had, against what the compiled run gave them.

A gradient that was not handed out (of a view, or into a value that is written into) is taken for what eager
makes of it, so that an error there shows at what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ...core.trace import NodeTrace
from .. import naming
from ..dispatched_ops import DispatchedOps
from ..equality import same
from ..execute import Subject, seed
from ..nudges import LINEAR, nudge
from ..products import factor_eps
from ..reference import Float64, NoReference, short_name, widen
from ..rounding import finest_of
from . import local_error
from .forward import Following, magnitude
from .local_error import Local
from .taps import Edge, NotTraced, Values

NUDGES = 3  # draws of a rounding of what an operation reads, to see how far that moves its gradients
# Where one operation by itself does not give the bits that it gave in eager's backward pass (another memory
# format, say), what compiled differs from it by about as much is no error of compiled's.
AS_IN_EAGER = 4.0
SUM = "aten.add"
Gradients = Mapping[Edge, Any]
World = Mapping[torch.fx.Node, Any]
Vjp = dict[torch.fx.Node, Any]  # what an operation gives to each of its inputs
_AUTOCAST = ("_enter_autocast", "_exit_autocast")


def to_follow(values: Values) -> list[torch.fx.Node]:
    """The nodes whose gradients are worth having. Raises NotTraced where the graph's gradients cannot be
    followed."""
    order = {node.name: at for at, node in enumerate(values.writers)}
    for node in values.overwritten & values.zeros.keys():
        last = values.last[node]
        if any(order[user.name] > order[last] for user in node.users if user.op != "output"):
            raise NotTraced(f"`{node.name}`, which has a gradient, is read after `{last}` writes into it")
    if any(getattr(node.target, "__name__", "") in _AUTOCAST for node in values.writers):
        raise NotTraced("autocast begins inside the graph, and its gradients are not followed")
    return [node for node in values.zeros if node not in values.overwritten]


@dataclass
class Found:
    """ends: by the path of an input's gradient the node that makes it."""

    nodes: list[NodeTrace] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Given:
    """One gradient that reaches a value. by: the node of the trace that made it, "" for the loss."""

    actual: torch.Tensor
    eager: torch.Tensor
    by: str


class Backward:
    """Goes through the calls from the last to the first.

    following: the forward pass, all its values held. compiled, eager: the gradients that the two runs had.
    """

    def __init__(
        self, following: Following, values: Values, subject: Subject, compiled: Gradients, eager: Gradients
    ) -> None:
        self.following = following
        self.values = values
        self.subject = subject
        self.compiled, self.eager = compiled, eager
        self.found = Found()
        self.given: dict[torch.fx.Node, list[_Given]] = {}

    def run(self) -> Found:
        graph = self.subject.edited.gm.graph
        nodes = list(graph.nodes)
        self._seed(nodes)
        for node in reversed(nodes):
            if node.op.startswith("call"):
                self._call(node)
        for node in nodes:
            if node.op == "placeholder" and (total := self._total(node)) is not None:
                self.found.ends[f"grad[{node.name}]"] = total.by
        return self.found

    def _seed(self, nodes: Sequence[torch.fx.Node]) -> None:
        """What the backward pass starts from."""
        by_name = {n.name: n for n in nodes}
        call, kept = self.subject.call, self.subject.edited.outputs_kept
        for i, name in enumerate(self.subject.edited.output_names()):
            value = self.following.env.get(by_name[name]) if name is not None else None
            if name is None or not isinstance(value, torch.Tensor) or not value.requires_grad:
                continue
            grad = call.grad_outputs.get(i) if kept else None
            if grad is None and kept and call.grad_outputs:
                continue  # the script's loss did not use this output
            start = seed(grad, value).detach()
            self.given.setdefault(by_name[name], []).append(_Given(start, start, ""))

    # -- one call -------------------------------------------------------------------------------------

    def _call(self, n: torch.fx.Node) -> None:
        """What reaches the call's result goes on to its inputs."""
        whole = isinstance(self.following.env[n], torch.Tensor)
        given = [self._total(n)] if whole else self._parts(n)
        if all(g is None for g in given) or not any(i in self.values.zeros for i in n.all_input_nodes):
            return
        name, ops = f"bwd.{n.name}", DispatchedOps()
        eager = self._vjp(n, self.following.env, [None if g is None else g.eager for g in given])
        reached = [None if g is None else g.actual for g in given]
        expected = self._vjp(n, self.following.compiled, reached, ops)
        found, difference = [], 0.0
        for i, should in expected.items():
            had, of_eager = self._had(self.compiled, i, n, should), self._had(self.eager, i, n, eager[i])
            scale = local_error.Scale.LAST_BIT if ops.basic else local_error.Scale.WHOLE
            local = local_error.local(had, should, scale, self._asked(n, i, reached))
            other_bits = local_error.difference((eager[i], of_eager))
            if other_bits and local.relative <= AS_IN_EAGER * other_bits:
                local = Local()
            found.append(local)
            if local.arises:
                self.following.errors.note(Edge(i.name, n.name), name, had, should)
            difference = max(difference, local_error.difference((had, of_eager)))
            self.given.setdefault(i, []).append(_Given(had, of_eager, name))
        makers = [g.by for g in given if g is not None and g.by]
        reads = [*makers, *(i.name for i in n.all_input_nodes)]
        gain = self._gain(n, given, expected, eager)
        op = ops.name or self.following.ops[n].name
        self._note(n, name, op, reads, local_error.worst(found), gain, difference)

    def _parts(self, n: torch.fx.Node) -> list[_Given | None]:
        """What reaches the parts of a tuple, in their order."""
        value = self.following.env[n]
        parts: list[_Given | None] = [None] * (len(value) if isinstance(value, (tuple, list)) else 0)
        for user in n.users:
            index = user.args[1] if len(user.args) > 1 else None
            if isinstance(index, int) and index < len(parts):
                parts[index] = self._total(user)
        return parts

    def _had(self, gradients: Gradients, i: torch.fx.Node, reader: torch.fx.Node, expected: Any) -> Any:
        """The gradient that a run had on the way from the reader to the value."""
        edges = [Edge(i.name, reader.name), *([Edge(i.name)] if len(i.users) == 1 else [])]
        had = next((gradients[edge] for edge in edges if gradients.get(edge) is not None), None)
        return expected if had is None else had

    def _total(self, n: torch.fx.Node) -> _Given | None:
        """The sum of what reaches a value, as the compiled run had it; None where nothing does."""
        given = self.given.get(n, [])
        if len(given) < 2:
            return given[0] if given else None
        expected, eager = (_summed([getattr(g, side) for g in given]) for side in ("actual", "eager"))
        actual, of_eager = self.compiled.get(Edge(n.name)), self.eager.get(Edge(n.name))
        actual = expected if actual is None else actual
        of_eager = eager if of_eager is None else of_eager
        name = f"grad[{n.name}]"
        summed = _sums([g.actual for g in given])
        here = local_error.local(actual, expected, local_error.Scale.LAST_BIT, summed)
        if here.arises:
            self.following.errors.note(Edge(n.name), name, actual, expected)
        difference = local_error.difference((actual, of_eager))
        self._note(n, name, SUM, [g.by for g in given if g.by], here, None, difference)
        self.given[n] = [_Given(actual, of_eager, name)]
        return self.given[n][0]

    def _gain(
        self, n: torch.fx.Node, given: Sequence[_Given | None], expected: Vjp, eager: Vjp
    ) -> float | None:
        pairs = [(g.actual, g.eager) for g in given if g is not None]
        pairs += [(self.following.compiled[i], self.following.env[i]) for i in n.all_input_nodes]
        moved = [pair for pair in pairs if not same(*pair)]
        if not moved:
            return None
        result = tuple(expected.values()), tuple(eager[i] for i in expected)
        return local_error.gain(result, moved, False, None)

    def _note(
        self, n: torch.fx.Node, name: str, op: str, reads: Sequence[str], here: Local, gain: float | None,
        difference: float,
    ) -> None:
        self.found.nodes.append(NodeTrace(
            name, op, naming.where_of(n), tuple(dict.fromkeys(reads)), True, here.arises, here.ulp,
            here.relative, here.beyond, gain, difference, here.wrong, here.eager_ulp,
        ))  # fmt: skip

    # -- vector-Jacobian products of one operation -------------------------------------------------------

    def _vjp(
        self, n: torch.fx.Node, world: World, given: Sequence[Any], ops: DispatchedOps | None = None
    ) -> Vjp:
        """What the operation gives to each differentiable input, of these values and gradients of its result.

        ops: takes the calls that the backward pass makes."""
        leaves: dict[torch.fx.Node, torch.Tensor] = {}

        def leaf(i: torch.fx.Node) -> Any:
            value = leaves.get(i)
            if value is None:
                value = pytree.tree_map(_detached, world[i])
            if i in self.values.zeros:
                leaves[i] = value.requires_grad_()
            return value.clone() if i in self.values.written.get(n, ()) else value

        self.following.draw_as_before(n)
        with torch.enable_grad():
            args, kwargs = map_arg((n.args, n.kwargs), leaf)
            result = getattr(self.following, n.op)(n.target, args, kwargs)
        results = result if isinstance(result, (tuple, list)) else [result]
        pairs = [(r, g) for r, g in zip(results, given, strict=False) if g is not None and r.requires_grad]
        if not pairs:
            return {}
        with ops or nullcontext():
            made = torch.autograd.grad(
                [r for r, _ in pairs], list(leaves.values()), [g for _, g in pairs], allow_unused=True
            )
        return {i: g for i, g in zip(leaves, made, strict=True) if g is not None}

    def _wide_vjp(
        self, n: torch.fx.Node, i: torch.fx.Node, given: Sequence[Any], change: Callable[[Any], Any]
    ) -> Any:
        """The product for one input in double precision, None where it cannot be run so. change: of what the
        operation reads, before it is widened."""
        world = {j: _changed(self.following.compiled[j], change) for j in n.all_input_nodes}
        # Before double precision is in force, under which nothing may be drawn at random.
        reached = [_changed(g, change) for g in given]
        try:
            with Float64(finest_of(world.values())):
                return self._vjp(n, world, reached).get(i)
        except (NoReference, NotImplementedError, RuntimeError):
            return None

    def _asked(self, n: torch.fx.Node, i: torch.fx.Node, given: Sequence[Any]) -> local_error.OtherWays:
        def moved() -> list[Any]:
            return [self._wide_vjp(n, i, given, partial(nudge, seed=seed)) for seed in range(NUDGES)]

        def of_magnitudes() -> Any:
            linear = short_name(n.target) in LINEAR
            return self._wide_vjp(n, i, given, magnitude) if linear else None

        factors = factor_eps(short_name(n.target), [self.following.compiled[j] for j in n.all_input_nodes])
        return local_error.OtherWays(
            lambda: self._wide_vjp(n, i, given, lambda v: v), moved, of_magnitudes, factors=factors
        )


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _changed(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    def wide(leaf: Any) -> Any:
        floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return widen(change(leaf.detach()) if floating else leaf)

    return pytree.tree_map(wide, value)


def _sums(values: Sequence[torch.Tensor]) -> local_error.OtherWays:
    """The sum in double precision, and the same of values that were rounded otherwise."""

    def wide(change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return _summed([change(value).double() for value in values])

    moved = (partial(nudge, seed=seed) for seed in range(NUDGES))
    return local_error.OtherWays(lambda: wide(lambda v: v), lambda: [wide(change) for change in moved])


def _summed(values: Sequence[torch.Tensor]) -> torch.Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
