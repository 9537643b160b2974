"""Follow the compiled run node by node: the error that arises at each node, and the gain of each.

One more compile, of the graph that returns its intermediate values too. Whether it still diverges as the
plain one does is for the caller to judge: returning a value can change what the compiler does with it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._inductor.config as inductor_config
import torch.fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ...core.case import Case
from ...core.model import Candidate, Measurement
from ...core.protocol import CannotAnswer, Traced
from ...core.trace import NodeTrace, Trace
from ...errors import first_line
from .. import execute, measure, naming, tensors, torch_state
from ..capture.record import Call
from ..dispatched_ops import DispatchedOps
from ..graph import edit, liveness
from ..reference import LINEAR, Float64, NoReference, short_name, widen
from . import local_error, taps
from . import local_error as gains

# What is returned only for us to look at must not be brought into eager's memory format for that.
_ANY_STRIDES = {"keep_output_stride": False} if hasattr(inductor_config, "keep_output_stride") else {}


def trace(
    call: Call, case: Case, candidate: Candidate, train: bool | None, left_out: Collection[str]
) -> Traced:
    """The trace, and the outputs of the compiled graph that was followed, against eager.

    left_out: nodes whose values are not returned. Raises CannotAnswer where the graph cannot be followed.
    """
    try:
        subject = execute.prepare(call, case, train)
        return _followed(subject, candidate, left_out)
    except (taps.NotTraced, execute.NotCompiled) as error:
        raise CannotAnswer(str(error)) from error
    except Exception as error:
        raise CannotAnswer(first_line(error)) from error  # eager or compiled code may raise anything


def _followed(subject: execute.Subject, candidate: Candidate, left_out: Collection[str]) -> Traced:
    values = taps.Values(subject.edited.gm)
    torch_state.restore_rng(subject.call.state)
    before = _generators()
    eager = taps.outputs(subject, values.run)
    if not all(torch.equal(a, b) for a, b in zip(before, _generators(), strict=False)):
        raise taps.NotTraced("it draws random numbers")
    tapped = taps.tapped(subject, values, left_out)
    flags = [*dict(candidate.flags), execute.HEADER_FLAG]
    with (
        torch_state.kept(flags),
        execute.active(execute.control_for(candidate)),
        inductor_config.patch(_ANY_STRIDES),
    ):
        compiled = taps.outputs(subject, execute.compile_subject(tapped.subject, candidate))
    own, returned = compiled[: tapped.own_outputs], compiled[tapped.own_outputs :]
    following = Following(values, dict(zip(tapped.names, returned, strict=True)) | _named(subject, own))
    following.run(*tensors.fresh(subject.edited.args, subject.edited.requires_grad))
    paths = [f"output[{i}]" for i in range(tapped.own_outputs)]
    pairs = dict(zip(paths, eager, strict=True)), dict(zip(paths, own, strict=True))
    found = Trace(tuple(following.nodes), tuple(subject.edited.output_names()))
    return Traced(found, Measurement(measure.measure_all(*pairs)))


def _generators() -> list[torch.Tensor]:
    """States of the random generators of the CPU and of the GPUs that are in use."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *gpus]


def _named(subject: execute.Subject, own: list[Any]) -> dict[str, Any]:
    pairs = zip(subject.edited.output_names(), own, strict=True)
    return {name: v for name, v in pairs if name is not None and isinstance(v, torch.Tensor)}


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


class Following(torch.fx.Interpreter):
    """Runs the graph in eager, and beside it each of its operations on the values that the compiled run had.

    values: from an earlier run. returned: the compiled run's tensors, by node. nodes: what was found.
    """

    def __init__(self, values: taps.Values, returned: dict[str, Any]) -> None:
        super().__init__(values.module)
        self.values = values
        self.returned = returned
        self.nodes: list[NodeTrace] = []
        self.compiled: dict[torch.fx.Node, Any] = {}  # eager's own object where both runs had the same bits
        self.ops: dict[torch.fx.Node, DispatchedOps] = {}
        self.unrounded: dict[torch.fx.Node, _Unrounded] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if not n.op.startswith("call"):
            self.compiled[n] = super().run_node(n)
            return self.compiled[n]
        moved = [i for i in n.all_input_nodes if self.compiled[i] is not self.env[i]]
        inputs = [(self.compiled[i], self.env[i]) for i in moved]
        expected = self._on_compiled(n) if moved else None
        with DispatchedOps() as ops:
            result = super().run_node(n)
        self.ops[n] = self._maker_of(n) or ops
        self._note(n, result, expected if moved else result, inputs)
        self.unrounded[n] = self._before_rounding(n)
        for last in self.user_to_last_uses.get(n, ()):
            self.compiled.pop(last, None)
            self.unrounded.pop(last, None)
        return result

    def _maker_of(self, n: torch.fx.Node) -> DispatchedOps | None:
        """The operations of the node that made the tuple of which this one takes a part."""
        source = n.args[0] if n.target is operator.getitem else None
        made = isinstance(source, torch.fx.Node) and source in self.values.makers
        return self.ops.get(source) if made and isinstance(source, torch.fx.Node) else None

    def _on_compiled(self, n: torch.fx.Node) -> Any:
        args, kwargs = map_arg((n.args, n.kwargs), lambda i: self.compiled[i])
        if liveness.mutates(n):
            leaves, spec = pytree.tree_flatten((args, kwargs))
            args, kwargs = pytree.tree_unflatten(tensors.snapshot(leaves), spec)
        return getattr(self, n.op)(n.target, args, kwargs)

    def _operation(self, n: torch.fx.Node) -> gains.Operation | None:
        """The node as a function of its one tensor; None where it has several or one that is no float."""
        source = n.all_input_nodes[0]
        value = self.env[source]
        if len(n.all_input_nodes) != 1 or liveness.mutates(n) or not isinstance(value, torch.Tensor):
            return None
        if not value.is_floating_point():
            return None

        def apply(x: torch.Tensor) -> torch.Tensor:
            args, kwargs = map_arg((n.args, n.kwargs), lambda i: x)
            result: torch.Tensor = getattr(self, n.op)(n.target, args, kwargs)
            return result

        return apply

    def _in_float64(self, n: torch.fx.Node, instead: Mapping[torch.fx.Node, Any] = _NOTHING) -> Any:
        """The node on the compiled run's values in double precision, None where it cannot be run so.

        instead: other values of its inputs."""
        if liveness.mutates(n):
            return None

        def wide(i: torch.fx.Node) -> Any:
            return pytree.tree_map(widen, instead[i] if i in instead else self.compiled[i])

        args, kwargs = map_arg((n.args, n.kwargs), wide)
        try:
            with Float64(), torch.no_grad():
                return getattr(self, n.op)(n.target, args, kwargs)
        except (NoReference, NotImplementedError, RuntimeError):
            return None

    def _before_rounding(self, n: torch.fx.Node) -> _Unrounded:
        """What the node makes before its result is rounded: how to find out, since it is seldom asked."""
        before = {i: self.unrounded[i] for i in n.all_input_nodes if i in self.unrounded}
        return _Unrounded(n, {i: self.compiled[i] for i in n.all_input_nodes}, before).within(LEVELS)

    def _on_unrounded(self, n: torch.fx.Node) -> list[Any]:
        """The node in double precision where its inputs were not rounded: one of them, and all."""
        found = {i: self._value_of(self.unrounded[i]) for i in n.all_input_nodes if i in self.unrounded}
        wide = {i: value for i, value in found.items() if value is not None}
        each = [{i: value} for i, value in wide.items()] if len(wide) > 1 else []
        return [self._in_float64(n, instead) for instead in (*each, wide) if instead]

    def _of_magnitudes(self, n: torch.fx.Node) -> Any:
        """Of a sum of terms or of products the sum of their magnitudes, to which its rounding is relative."""
        if short_name(n.target) not in LINEAR:
            return None
        return self._in_float64(n, {i: _magnitude(self.compiled[i]) for i in n.all_input_nodes})

    def _value_of(self, what: _Unrounded) -> Any:
        known = {i: self._value_of(inner) for i, inner in what.before.items()}
        wide = {**what.inputs, **{i: value for i, value in known.items() if value is not None}}
        return self._in_float64(what.node, wide)

    def _note(self, n: torch.fx.Node, eager: Any, expected: Any, inputs: list[Any]) -> None:
        seen = n.name in self.returned and isinstance(eager, torch.Tensor)
        actual = _as_eager_keeps_it(self.returned.pop(n.name), eager) if seen else expected
        found = local_error.Local()
        if seen:
            asked = local_error.Asked(
                lambda: self._in_float64(n), lambda: self._on_unrounded(n), lambda: self._of_magnitudes(n)
            )
            found = local_error.local(actual, expected, self.ops[n].basic, asked)
        gain = None
        if inputs and (n in self.values.own or n in self.values.makers):
            gain = gains.gain((expected, eager), inputs, self.ops[n].elementwise, self._operation(n))
        self.nodes.append(NodeTrace(
            n.name, self.ops[n].name, naming.where_of(n), tuple(edit.node_arguments(n)), seen,
            found.arises, found.ulp, found.relative, found.beyond, gain,
            local_error.difference((actual, eager)), found.wrong, found.eager_ulp,
        ))  # fmt: skip
        self.compiled[n] = eager if local_error.same((actual, eager)) else actual


def _magnitude(value: Any) -> Any:
    return pytree.tree_map(lambda v: v.abs() if isinstance(v, torch.Tensor) else v, value)


def _as_eager_keeps_it(value: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The values in eager's strides: another memory format would make eager choose another kernel."""
    if value.shape == eager.shape and value.dtype == eager.dtype and value.stride() != eager.stride():
        value = torch.empty_like(eager).copy_(value)
    return value.detach().requires_grad_(eager.requires_grad)
