"""A graph in the calls that a person writes: `x * y` for `torch.ops.aten.mul.Tensor(x, y)`, and no argument
that is the default.

Another form of a call is taken only where it is exact: run on the values that the node has, in eager and as
Dynamo sees it, it makes the very same ATen calls with the same arguments, and gives the same bits.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch.fx.node import map_arg

from ..dispatched_ops import AtenCall, AtenCalls
from ..tensors import fresh, grad_flags, same_values
from .ops_source import INFIX, PREFIX, public_names
from .source import CAPTURED, build, function_source
from .values import concrete

# Of more calls nobody reads the function, and on more elements it takes long to try forms.
MOST_CALLS = 100
MOST_ELEMENTS = 1 << 20

OPERATORS = {1: PREFIX, 2: INFIX}  # by the number of arguments
MODULES = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special)
Values = Mapping[fx.Node, Any]


@dataclass(frozen=True)
class Form:
    """A call, as a node holds it."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def run(self, values: Values) -> Any:
        args: Any = map_arg(self.args, values.__getitem__)
        kwargs: Any = map_arg(dict(self.kwargs), values.__getitem__)
        if self.op == "call_method":
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        return self.target(*args, **kwargs)

    def without(self, name: str) -> Form:
        """The call without an argument that is passed by its name."""
        return replace(self, kwargs={key: value for key, value in self.kwargs.items() if key != name})


def in_public_calls(
    gm: fx.GraphModule, inputs: Sequence[Any], requires_grad: Sequence[bool]
) -> fx.GraphModule:
    """The graph with its calls in public forms, where they have one; its nodes are named as they were."""
    values = [concrete(value) for value in inputs]
    elements = sum(value.numel() for value in values if isinstance(value, torch.Tensor))
    calls = sum(node.op in ("call_function", "call_method") for node in gm.graph.nodes)
    if calls > MOST_CALLS or elements > MOST_ELEMENTS:
        return gm
    trials = _Trials(gm)
    try:
        with torch.random.fork_rng():
            trials.run(*fresh(values, requires_grad))
    except Exception:  # noqa: BLE001 - the graph's own; whoever verifies its source will say it
        return gm
    written = _rewritten(gm, trials.forms)
    same_names = [n.name for n in written.graph.nodes] == [n.name for n in gm.graph.nodes]
    return written if same_names else gm


def _rewritten(gm: fx.GraphModule, forms: Mapping[fx.Node, Form]) -> fx.GraphModule:
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in gm.graph.nodes:
        copies[node] = copy = graph.node_copy(node, copies.__getitem__)
        if form := forms.get(node):
            copy.meta[CAPTURED] = node.target
            copy.op, copy.target = form.op, form.target
            copy.args = map_arg(form.args, copies.__getitem__)
            copy.kwargs = map_arg(dict(form.kwargs), copies.__getitem__)
    return fx.GraphModule(gm, graph)


class _Trials(fx.Interpreter):
    """Runs a graph and tries other forms of its calls on the values that they meet. forms: those to take."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm)
        self.forms: dict[fx.Node, Form] = {}

    def run_node(self, n: fx.Node) -> Any:
        if _computes(n):
            form = _best(n, {node: self.env[node] for node in n.all_input_nodes})
            if form is not None:
                self.forms[n] = form
        return super().run_node(n)


def _computes(node: fx.Node) -> bool:
    """Whether the node is a method or a function of torch, so that it does no harm to run it more often."""
    if node.op == "call_function":
        return _is_aten(node.target) or id(node.target) in public_names()
    return node.op == "call_method"


def _is_aten(target: Any) -> bool:
    return isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


def _best(node: fx.Node, values: Values) -> Form | None:
    """The first public form that is exact, with as few arguments as will do; None where the node stays."""
    captured = Form(node.op, node.target, node.args, node.kwargs)
    forms = [short for form in (*_other_forms(captured), captured) for short in _without_last(form)]
    if forms == [captured] and not captured.kwargs:
        return None
    expected = _Made.by(captured, values)
    if expected is None or not expected.calls:
        return None
    found = next((form for form in forms if expected.is_made_by(form, values)), captured)
    for name, value in captured.kwargs.items():
        if _is_literal(value) and expected.is_made_by(found.without(name), values):
            found = found.without(name)
    exact = found != captured and _seen_by_dynamo(found, values) == expected.calls
    return found if exact else None


def _other_forms(form: Form) -> Iterator[Form]:
    """The operators, functions and methods that may be another name of an ATen op."""
    if not _is_aten(form.target):
        return
    name = str(form.target).split(".")[1].lstrip("_")
    if not form.kwargs:
        for sign in OPERATORS.get(len(form.args), ()):
            yield replace(form, target=getattr(operator, sign))
    of_tensor = bool(form.args) and isinstance(form.args[0], fx.Node) and hasattr(torch.Tensor, name)
    methods = [replace(form, op="call_method", target=name)] if of_tensor else []
    if name.endswith("_"):
        yield from methods  # what writes into a tensor reads better so
    for module in MODULES:
        function = vars(module).get(name.removeprefix(module.__name__.rpartition(".")[2] + "_"))
        if id(function) in public_names():
            yield replace(form, target=function)
    yield from methods


def _without_last(form: Form) -> Iterator[Form]:
    """The call without its last arguments, as far as they are literals: the shortest first, itself last."""
    shortest = len(form.args)
    while shortest > 1 and _is_literal(form.args[shortest - 1]):
        shortest -= 1
    if getattr(form.target, "__module__", "") == operator.add.__module__:
        shortest = len(form.args)
    for count in range(shortest, len(form.args) + 1):
        yield replace(form, args=form.args[:count])


def _is_literal(value: Any) -> bool:
    nodes: list[fx.Node] = []
    map_arg(value, nodes.append)
    return not nodes


@dataclass(frozen=True)
class _Made:
    """What a form did. output: its tensors and numbers; after: what it was given, as that was afterwards;
    kept: strides and backward of each tensor of the output; warned: what a reader would be warned of.
    """

    calls: Sequence[AtenCall]
    output: Sequence[Any]
    after: Sequence[Any]
    kept: Sequence[Any]
    warned: frozenset[str]

    @classmethod
    def by(cls, form: Form, values: Values) -> _Made | None:
        """None where the form raises: it does not take these arguments."""
        given = _fresh(values)
        try:
            with (
                torch.random.fork_rng(),
                warnings.catch_warnings(record=True) as heard,
                AtenCalls(given) as listed,
            ):
                warnings.simplefilter("always")
                torch.manual_seed(0)
                output = pytree.tree_leaves(form.run(dict(zip(values, given, strict=True))))
        except Exception:  # noqa: BLE001 - an op can raise anything
            return None
        kept = [(v.stride(), type(v.grad_fn).__name__) for v in output if isinstance(v, torch.Tensor)]
        return cls(listed.calls, output, given, kept, frozenset(str(w.message) for w in heard))

    def is_made_by(self, form: Form, values: Values) -> bool:
        """Whether the form does all of this on the same values, and warns of nothing more: softmax without a
        dim is deprecated, though it takes the same one."""
        other = _Made.by(form, values)
        if other is None or (self.calls, self.kept) != (other.calls, other.kept):
            return False
        if not other.warned <= self.warned:
            return False
        return same_values(self.output, other.output) and same_values(self.after, other.after)


def _seen_by_dynamo(form: Form, values: Values) -> Sequence[AtenCall] | None:
    """The calls of the graph that Dynamo makes of the form as it will be written; None where it makes none.

    Dynamo takes some functions apart: torch.addcdiv with a value becomes a product and a sum.
    """
    graph = fx.Graph()
    inputs = {node: graph.placeholder(node.name) for node in values}
    args, kwargs = map_arg(form.args, inputs.__getitem__), map_arg(dict(form.kwargs), inputs.__getitem__)
    graph.output((graph.create_node(form.op, form.target, args, kwargs),))
    given = _fresh(values)
    seen: list[Sequence[AtenCall]] = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            with AtenCalls(given) as listed:
                outputs = gm(*inputs)
            seen.append(listed.calls)
            return outputs

        return run

    try:
        function = build(function_source(fx.GraphModule(torch.nn.Module(), graph)))
        torch.compile(function, backend=backend, fullgraph=True)(*given)
    except Exception:  # noqa: BLE001 - Dynamo too
        return None
    return seen[0] if len(seen) == 1 else None


def _fresh(values: Values) -> list[Any]:
    flags = grad_flags(values.values())
    return fresh(list(values.values()), flags)
