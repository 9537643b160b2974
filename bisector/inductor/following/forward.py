"""The forward pass followed: eager's own operation on the values that the compiled run had, node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ...core.trace import NodeTrace
from .. import naming, tensors
from ..dispatched_ops import DispatchedOps
from ..equality import same
from ..execute import NotCompiled
from ..graph import edit
from ..nudges import LINEAR
from ..products import factor_eps
from ..reference import Float64, NoReference, short_name, widen
from ..rounding import finest_of
from ..undefined import makes_memory
from . import local_error
from . import local_error as gains
from .injection import Errors
from .local_error import Local
from .taps import NotTraced, Tap, Values

MOST_ALONE = 4  # nodes that are compiled by themselves: a compile each
ByItself = Callable[[torch.fx.GraphModule, list[Any]], Any]
LEVELS = 4  # operations over which a value may stay unrounded; what lies before is held as it was handed out
_NOTHING: Mapping[torch.fx.Node, Any] = {}


@dataclass(frozen=True)
class _Unrounded:
    """How to compute a node's result before its rounding. inputs: what the compiled run had; before: those of
    them that may not have been rounded either."""

    node: torch.fx.Node
    inputs: Mapping[torch.fx.Node, Any]
    before: Mapping[torch.fx.Node, _Unrounded]

    def within(self, levels: int) -> _Unrounded:
        """The same, over so many operations, so that not all values are held for ever."""
        kept = {i: one.within(levels - 1) for i, one in self.before.items()} if levels > 1 else {}
        return replace(self, before=kept)


@dataclass(frozen=True)
class _Shown:
    """A value of a node that the compiled run handed out. of: the node whose memory it is in; expected: what
    eager's operation makes of the compiled run's inputs; eager: the value in eager."""

    of: torch.fx.Node
    actual: torch.Tensor
    expected: torch.Tensor
    eager: torch.Tensor


class Following(torch.fx.Interpreter):
    """Runs the graph in eager, and next to it each of its operations on the values that the compiled run had.

    Where the graph writes into values the two worlds share no memory; else they share what is equal, for its
    sake and for speed.

    values: from an earlier run. returned: the compiled run's tensors, by tap. keep: hold all values to the
    end. by_itself: compiles a graph as the followed one was, and runs it. nodes: what was found; errors: by
    node, what the compiled run has more than is expected of it.
    """

    def __init__(
        self,
        values: Values,
        returned: Mapping[Tap, Any],
        edited: edit.Edited,
        by_itself: ByItself,
        keep: bool = False,
    ) -> None:
        super().__init__(values.module, garbage_collect_values=not keep)
        self.values = values
        self.returned = dict(returned)
        self.by_itself = by_itself
        self.alone = 0
        self.nodes: list[NodeTrace] = []
        self.errors = Errors()
        self.compiled: dict[torch.fx.Node, Any] = {}
        self.ops: dict[torch.fx.Node, DispatchedOps] = {}
        self.unrounded: dict[torch.fx.Node, _Unrounded] = {}
        self._others: Iterator[Any] | None = None
        if values.writes:
            self._others = iter(tensors.fresh(edited.args, edited.requires_grad))

    @property
    def separate_memory(self) -> bool:
        """Whether the two worlds share no memory."""
        return self._others is not None

    def run_node(self, n: torch.fx.Node) -> Any:
        if not n.op.startswith("call"):
            value = super().run_node(n)
            own = next(self._others) if self._others is not None and n.op == "placeholder" else value
            self.compiled[n] = own
            return value
        written = self.values.written.get(n, [])
        held = {i: _copied(self.compiled[i]) if written else self.compiled[i] for i in n.all_input_nodes}
        moved = [i for i in held if not same(held[i], self.env[i])]
        pairs = [(held[i], _copied(self.env[i]) if written else self.env[i]) for i in moved]
        expected = self._on_compiled(n) if moved or self.separate_memory else None
        self.draw_as_before(n)
        with DispatchedOps() as ops:
            result = super().run_node(n)
        self.ops[n] = self._maker_of(n) or ops
        self.compiled[n] = expected if moved or self.separate_memory else result
        self._note(n, result, held, pairs)
        self.unrounded[n] = self._before_rounding(n, held)
        for last in self.user_to_last_uses.get(n, ()) if self.garbage_collect_values else ():
            self.compiled.pop(last, None)
            self.unrounded.pop(last, None)
        return result

    def _maker_of(self, n: torch.fx.Node) -> DispatchedOps | None:
        """The operations of the node that made the tuple of which this one takes a part."""
        source = self._tuple_of(n)
        return None if source is None else self.ops.get(source)

    def _tuple_of(self, n: torch.fx.Node) -> torch.fx.Node | None:
        """The node that made the tuple of which this one takes a part."""
        source = n.args[0] if n.target is operator.getitem else None
        return source if isinstance(source, torch.fx.Node) and source in self.values.makers else None

    def draw_as_before(self, n: torch.fx.Node) -> None:
        """What the call draws next is what it drew in the run that `values` is of."""
        if n in self.values.drawn:
            self.values.drawn[n].put_back()

    def _on_compiled(self, n: torch.fx.Node) -> Any:
        self.draw_as_before(n)
        args, kwargs = map_arg((n.args, n.kwargs), lambda i: self.compiled[i])
        # Values that were put in place are leaves, and may be written into all the same.
        with torch.no_grad() if n in self.values.written else nullcontext():
            return getattr(self, n.op)(n.target, args, kwargs)

    # -- what is noted --------------------------------------------------------------------------------

    def _note(
        self, n: torch.fx.Node, eager: Any, held: Mapping[torch.fx.Node, Any], moved: Sequence[Any]
    ) -> None:
        shown = list(self._shown(n, eager, self.values.written.get(n, [])))
        measured = [] if self._holds_nothing(n) else shown
        found = [self._local(n, one, held) for one in measured]
        here = local_error.worst(found)
        pairs = [(one.actual, one.eager) for one in measured] or [(self.compiled[n], eager)]
        difference = max(map(local_error.difference, pairs)) if measured or not shown else 0.0
        self.nodes.append(NodeTrace(
            n.name, self.ops[n].name, naming.where_of(n), self._reads(n), self._is_seen(n, shown),
            here.arises, here.ulp, here.relative, here.beyond, self._gain(n, eager, shown, moved),
            difference, here.wrong, here.eager_ulp,
        ))  # fmt: skip
        for one, local in zip(measured, found, strict=True):
            if local.arises:
                self.errors.note(Tap(n.name, one.of.name), n.name, one.actual, one.expected)
        for one in shown:
            self._put(n, one)

    def _holds_nothing(self, n: torch.fx.Node) -> bool:
        """Whether its value is memory as it was found, into which a later call writes."""
        calls = self.ops[n].calls
        return n in self.values.overwritten and bool(calls) and all(map(makes_memory, calls))

    def _reads(self, n: torch.fx.Node) -> tuple[str, ...]:
        """The nodes that it reads, and the calls that have written into what it reads."""
        return tuple(dict.fromkeys([*edit.node_arguments(n), *self.values.writers.get(n, ())]))

    def _is_seen(self, n: torch.fx.Node, shown: Sequence[_Shown]) -> bool:
        """Whether its own error would show. A view has none, and of a tuple the parts show it."""
        return bool(shown) or not (n in self.values.own or n in self.values.written)

    def _shown(self, n: torch.fx.Node, eager: Any, written: Sequence[torch.fx.Node]) -> Iterator[_Shown]:
        expected = self.compiled[n]
        for of, value, result in (
            (n, expected, eager),
            *((target, self.compiled[target], self.env[target]) for target in written),
        ):
            actual = self.returned.pop(Tap(n.name, of.name), None)
            if isinstance(actual, torch.Tensor) and isinstance(result, torch.Tensor):
                yield _Shown(of, _as_eager_keeps_it(actual, result), value, result)

    def _local(self, n: torch.fx.Node, one: _Shown, held: Mapping[torch.fx.Node, Any]) -> Local:
        of = one.of if one.of is not n else None
        asked = local_error.OtherWays(
            lambda: self._reference(n, held, of),
            lambda: self._on_unrounded(n, held, of),
            lambda: self._of_magnitudes(n, held, of),
            lambda: self._compiled_alone(n, held),
            factor_eps(short_name(n.target), list(held.values())),
        )
        scale = local_error.scale_of(self.ops[n].basic, one.expected, list(held.values()))
        found = local_error.local(one.actual, one.expected, scale, asked)
        if found.beyond and (n in self.values.drawn or self._tuple_of(n) in self.values.drawn):
            raise NotTraced(f"`{n.name}` draws random numbers, and gives others compiled")
        return found

    def _gain(
        self, n: torch.fx.Node, eager: Any, shown: Sequence[_Shown], moved: Sequence[Any]
    ) -> float | None:
        if not moved:
            return None
        if n in self.values.own or n in self.values.makers:
            operation = self._operation(n)
            return gains.gain((self.compiled[n], eager), moved, self.ops[n].elementwise, operation)
        if shown and n in self.values.written:
            return gains.gain((shown[0].expected, shown[0].eager), moved, False, None)
        return None

    def _put(self, n: torch.fx.Node, one: _Shown) -> None:
        """The compiled run's own value from here on."""
        if one.of is not n:
            with torch.no_grad():
                one.expected.copy_(one.actual)
        elif not self.separate_memory and same(one.actual, one.eager):
            self.compiled[n] = one.eager
        else:
            self.compiled[n] = one.actual

    # -- the same operation in other ways --------------------------------------------------------------

    def _operation(self, n: torch.fx.Node) -> gains.Operation | None:
        """The node as a function of its one tensor; None where it has several or one that is no float."""
        source = n.all_input_nodes[0]
        value = self.env[source]
        if len(n.all_input_nodes) != 1 or not isinstance(value, torch.Tensor):
            return None
        if n in self.values.written or n in self.values.drawn:
            return None
        if not value.is_floating_point():
            return None

        def apply(x: torch.Tensor) -> torch.Tensor:
            args, kwargs = map_arg((n.args, n.kwargs), lambda i: x)
            result: torch.Tensor = getattr(self, n.op)(n.target, args, kwargs)
            return result

        return apply

    def _reference(
        self, n: torch.fx.Node, held: Mapping[torch.fx.Node, Any], of: torch.fx.Node | None
    ) -> Any:
        """The node in double precision. Of a part of a tuple that which made the tuple rounds."""
        if (source := self._tuple_of(n)) is None:
            return self._in_float64(n, held, of=of)
        made = self._in_float64(source, self.unrounded[source].inputs)
        return None if made is None else operator.getitem(made, n.args[1])

    def _in_float64(
        self,
        n: torch.fx.Node,
        inputs: Mapping[torch.fx.Node, Any],
        instead: Mapping[torch.fx.Node, Any] = _NOTHING,
        of: torch.fx.Node | None = None,
    ) -> Any:
        """The node on these inputs in double precision, None where it cannot be run so.

        instead: other values of its inputs. of: the input that it writes into, in the place of its result."""
        wide = {i: pytree.tree_map(widen, instead.get(i, value)) for i, value in inputs.items()}
        if n in self.values.written:
            wide = {i: _copied(value) for i, value in wide.items()}
        args, kwargs = map_arg((n.args, n.kwargs), lambda i: wide[i])
        try:
            with Float64(finest_of(inputs.values())), torch.no_grad():
                result = getattr(self, n.op)(n.target, args, kwargs)
        except (NoReference, NotImplementedError, RuntimeError):
            return None
        return result if of is None else wide[of]

    def _before_rounding(self, n: torch.fx.Node, held: Mapping[torch.fx.Node, Any]) -> _Unrounded:
        """What the node makes before its result is rounded: how to find out, since it is seldom asked."""
        later = self.values.overwritten
        before = {i: self.unrounded[i] for i in held if i in self.unrounded and i not in later}
        inputs = {i: _copied(value) if i in later else value for i, value in held.items()}
        return _Unrounded(n, inputs, before).within(LEVELS)

    def _on_unrounded(
        self, n: torch.fx.Node, held: Mapping[torch.fx.Node, Any], of: torch.fx.Node | None
    ) -> list[Any] | None:
        """The node in double precision where its inputs were not rounded: one of them, and all. None where
        what one of them was before is not known, as where it is drawn."""
        before = {i: self.unrounded[i] for i in held if i in self.unrounded}
        wide = {i: self._value_of(one) for i, one in before.items() if i not in self.values.overwritten}
        if any(value is None for value in wide.values()):
            return None
        each = [{i: value} for i, value in wide.items()] if len(wide) > 1 else []
        return [self._in_float64(n, held, instead, of) for instead in (*each, wide) if instead]

    def _compiled_alone(self, n: torch.fx.Node, held: Mapping[torch.fx.Node, Any]) -> Any:
        """What the compiled node gives on these inputs where it is all of the graph; None where it writes
        into one, or cannot be compiled so."""
        if n in self.values.written or self.alone == MOST_ALONE:
            return None
        if not all(isinstance(value, torch.Tensor) for value in held.values()):
            return None
        self.alone += 1
        graph = torch.fx.Graph()
        own = {i: graph.placeholder(i.name) for i in held}
        graph.output((graph.node_copy(n, lambda i: own[i]),))
        inputs = [value.detach().clone() for value in held.values()]
        try:
            return tensors.as_list(self.by_itself(torch.fx.GraphModule(self.module, graph), inputs))[0]
        except (NotCompiled, RuntimeError):
            return None

    def _of_magnitudes(
        self, n: torch.fx.Node, held: Mapping[torch.fx.Node, Any], of: torch.fx.Node | None
    ) -> Any:
        """Of a sum of terms or of products the sum of their magnitudes, to which its rounding is relative."""
        if short_name(n.target) not in LINEAR:
            return None
        return self._in_float64(n, {i: magnitude(value) for i, value in held.items()}, of=of)

    def _value_of(self, what: _Unrounded) -> Any:
        instead = {i: self._value_of(inner) for i, inner in what.before.items()}
        if any(value is None for value in instead.values()):
            return None
        return self._in_float64(what.node, what.inputs, instead)


def magnitude(value: Any) -> Any:
    """The magnitudes of a tensor's elements, or of those of a tuple's tensors."""
    return pytree.tree_map(lambda v: v.abs() if isinstance(v, torch.Tensor) else v, value)


def _copied(value: Any) -> Any:
    """A copy that a write does not reach."""
    leaves, spec = pytree.tree_flatten(value)
    return pytree.tree_unflatten(tensors.snapshot(leaves), spec)


def _as_eager_keeps_it(value: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The values in eager's strides: another memory format would make eager choose another kernel."""
    if value.shape == eager.shape and value.dtype == eager.dtype and value.stride() != eager.stride():
        value = torch.empty_like(eager).copy_(value)
    return value.detach().requires_grad_(eager.requires_grad)
