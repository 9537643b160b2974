"""A captured graph as the Python function that a person would write.

One assignment a node, under the node's own name, so that a decision ID (`fma:sub@mul_1`) can be read against
the text. Only the inputs are renamed.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from ..tensors import as_list, fresh
from .bits import same_values
from .literals import TensorSource, evaluate, literal
from .names import Names, placeholder_name
from .ops_source import Scope, expression, function_name, statement_in_place
from .values import CannotWrite, call_source, concrete, value_source

INDENT = 4


@dataclass(frozen=True)
class FunctionSource:
    """The text of `def name(parameters): ...` and what must stand before it.

    constants: tensors that the graph carries itself, as module-level names; imports: whole lines.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    imports: tuple[str, ...] = ()
    constants: Mapping[str, TensorSource] = field(default_factory=dict)

    def given_constants(self) -> FunctionSource:
        """The same function where the constants are further parameters of the text, under their own names.

        `parameters` stays what a caller gives: who holds the constants passes them after these.
        """
        *nested, main = self.text.split("\n\n")
        _, body = main.split(":\n", 1)
        head = call_source(f"def {self.name}", [*self.parameters, *self.constants])
        return replace(self, text="\n\n".join([*nested, f"{head}:\n{body}"]))


def function_source(gm: fx.GraphModule, name: str = "fn") -> FunctionSource:
    """The function of a Dynamo graph. Raises CannotWrite where some node has no exact plain form."""
    writer = _Writer()
    parameters = writer.function(gm, name)
    return FunctionSource(
        name=name,
        text="\n\n".join(writer.functions),
        parameters=parameters,
        imports=tuple(sorted(writer.imports)),
        constants=writer.constants,
    )


def build(source: FunctionSource) -> types.FunctionType:
    """The function that the text defines, in this process."""
    names: dict[str, Any] = {}
    exec("\n".join(["import torch", "from math import inf, nan", *source.imports]), names)
    names.update({name: evaluate(text) for name, text in source.constants.items()})
    exec(source.text, names)
    function: types.FunctionType = names[source.name]
    return function


def verify(source: FunctionSource, gm: fx.GraphModule, inputs: Sequence[Any], seed: int = 0) -> None:
    """Runs the text and the graph in eager mode on copies of the inputs, from the same seed.

    Raises CannotWrite unless all outputs, and all inputs after the run, are bit-equal (NaN equals NaN).
    """
    flags = [isinstance(value, torch.Tensor) and value.requires_grad for value in inputs]
    runs = []
    for function in (fx.Interpreter(gm).run, build(source)):
        arguments = fresh([concrete(value) for value in inputs], flags)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            try:
                runs.append((function(*arguments), arguments))
            except Exception as error:
                who = "the graph" if not runs else "its source"
                raise CannotWrite(f"{who} raises {type(error).__name__}: {error}") from error
    (expected, expected_inputs), (made, made_inputs) = runs
    if not same_values(as_list(expected), as_list(made)):
        raise CannotWrite("the source of the graph gives other outputs than the graph")
    if not same_values(expected_inputs, made_inputs):
        raise CannotWrite("the source of the graph leaves other values in its inputs than the graph")


class _Writer:
    """Collects the functions of a graph, nested ones first, and what they need."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.imports: set[str] = set()
        self.constants: dict[str, TensorSource] = {}
        self._globals = Names()

    def function(self, gm: fx.GraphModule, name: str) -> tuple[str, ...]:
        """Writes the function and returns its parameters' names."""
        body = _Body(self, gm)
        for node in gm.graph.nodes:
            body.add(node)
        if body.open_contexts:
            raise CannotWrite("an autocast region is entered and never left")
        head = call_source(f"def {name}", body.parameters) + ":"
        self.functions.append("\n".join([head, *body.lines]) + "\n")
        return tuple(body.parameters)

    def nested(self, gm: fx.GraphModule, wanted: str) -> str:
        name = self._globals.take(wanted)
        self.function(gm, name)
        return name

    def constant(self, tensor: torch.Tensor, wanted: str) -> str:
        name = self._globals.take(wanted.strip("_").upper())
        self.constants[name] = literal(tensor, f"{name}_constant", default_dtype=None)
        return name


class _Body:
    """The statements of one function, written node by node."""

    def __init__(self, writer: _Writer, gm: fx.GraphModule) -> None:
        self.writer, self.gm = writer, gm
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.open_contexts: list[fx.Node] = []
        self._scope = Scope(imports=writer.imports)
        self._names = Names()

    def add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self.parameters.append(self._name(node, placeholder_name(node.name)))
        elif node.op == "get_attr":
            self._attribute(node)
        elif node.op == "output":
            self._line(f"return {self._scope.value(node.args[0])}")
        elif node.op in ("call_function", "call_method"):
            self._call(node)
        else:
            raise CannotWrite(f"{node.op} of {node.target} has no plain form")

    def _name(self, node: fx.Node, wanted: str | None = None) -> str:
        return self._scope.names.setdefault(node, self._names.take(wanted or node.name))

    def _line(self, text: str) -> None:
        self.lines.append(" " * self._indent + text)

    @property
    def _indent(self) -> int:
        return INDENT * (1 + len(self.open_contexts))

    def _attribute(self, node: fx.Node) -> None:
        value: Any = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            self._scope.names[node] = self.writer.constant(value, str(node.target).replace(".", "_"))
        elif isinstance(value, fx.GraphModule):
            self._scope.names[node] = self.writer.nested(value, node.name)
        else:
            self._scope.names[node] = value_source(value)

    def _call(self, node: fx.Node) -> None:
        target = node.target
        if target is torch.amp.autocast_mode._enter_autocast:
            self._line(f"with {_autocast(node)}:")
            self.open_contexts.append(node)
        elif target is torch.amp.autocast_mode._exit_autocast:
            self._leave(node)
        elif target is torch._C._set_grad_enabled:
            self._line(f"torch.set_grad_enabled({self._scope.value(node.args[0])})")
        elif in_place := statement_in_place(node, self._scope):
            self._line(in_place)
            if node.users:
                assert isinstance(node.args[0], fx.Node)
                self._scope.names[node] = self._scope.names[node.args[0]]
        else:
            text = self._higher_order(node) or expression(node, self._scope, self._indent)
            self._line(f"{self._name(node)} = {text}" if node.users else text)

    def _leave(self, node: fx.Node) -> None:
        if not self.open_contexts or self.open_contexts.pop() is not node.args[0]:
            raise CannotWrite("autocast regions overlap without one being inside the other")
        if self.lines[-1].lstrip().startswith("with "):
            self.lines.append(" " * (self._indent + INDENT) + "pass")

    def _higher_order(self, node: fx.Node) -> str | None:
        """The public form of a call with functions among its arguments; None for any other call."""
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            return None
        arguments = self._scope.arguments(node.args, node.kwargs)
        if node.target is torch.ops.higher_order.tag_activation_checkpoint:
            self.writer.imports.add("import torch.utils.checkpoint")
            return call_source("torch.utils.checkpoint.checkpoint", arguments, self._indent)
        if node.target is torch.ops.higher_order.cond:
            return call_source("torch.cond", arguments, self._indent)
        return function_name(node.target, self._scope)  # says why it cannot be written


def _autocast(node: fx.Node) -> str:
    arguments: Any = node.args
    options: Any = node.kwargs
    return autocast_source(*arguments, **options)


def autocast_source(
    device_type: str,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> str:
    """`torch.autocast(...)` for the arguments of torch.amp.autocast_mode.autocast."""
    options = {"dtype": (dtype, None), "enabled": (enabled, True), "cache_enabled": (cache_enabled, None)}
    given = [f"{key}={value_source(value)}" for key, (value, default) in options.items() if value != default]
    return f"torch.autocast({', '.join([value_source(device_type), *given])})"
