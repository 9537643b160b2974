"""The functions of a captured graph as text, statement by statement."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx

from .constants import value_of
from .names import Names, clean_name, input_names
from .ops_source import Scope, autocast_source, expression, function_name, statement_in_place
from .tensor_literals import Source, literal
from .values import CannotWrite, Place, call_source, value_source

INDENT = 4
CAPTURED = "numbisect_captured"  # in a node's meta: the target that it had before it got another


class Writer:
    """Collects the functions of a graph, nested ones first, and what they need.

    named: nodes that a reader knows by their names in the graph. Nothing else is called so, and where one of
    them is called otherwise, a comment says its name.
    """

    def __init__(self, named: Collection[str] = ()) -> None:
        self.named = frozenset(named)
        self.functions: list[str] = []
        self.imports: set[str] = set()
        self.constants: dict[str, Source] = {}
        self.globals = Names(kept=self.named)

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
        name = self.globals.take(wanted)
        self.function(gm, name)
        return name

    def constant(self, tensor: torch.Tensor, wanted: str) -> str:
        name = self.globals.take(wanted.strip("_").upper())
        self.constants[name] = literal(tensor, f"{name}_constant", default_dtype=None)
        return name


class _Body:
    """The statements of one function, written node by node; what stands outside of it is named first."""

    def __init__(self, writer: Writer, gm: fx.GraphModule) -> None:
        self.writer, self.gm = writer, gm
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.open_contexts: list[fx.Node] = []
        self._scope = Scope(imports=writer.imports)
        attributes = gm.graph.find_nodes(op="get_attr")
        names = input_names([str(node.target).replace(".", "_") for node in attributes])
        for node, name in zip(attributes, names, strict=True):
            self._attribute(node, name)
        self._names = writer.globals.inner()
        placeholders = gm.graph.find_nodes(op="placeholder")
        wanted = input_names([node.name for node in placeholders])
        for node, name in zip(placeholders, wanted, strict=True):
            self.parameters.append(self._name(node, name))
        for node, name in self._scope.names.items():
            if comment := self._comment(node, name):
                self.lines.append(f"{' ' * INDENT}# {name}:{comment.removeprefix('  #')}")

    def add(self, node: fx.Node) -> None:
        if node.op == "output":
            self._line(f"return {self._scope.value(node.args[0])}")
        elif node.op in ("call_function", "call_method"):
            self._call(node)
        elif node.op not in ("placeholder", "get_attr"):
            raise CannotWrite(f"{node.op} of {node.target} has no plain form")

    def _name(self, node: fx.Node, wanted: str) -> str:
        return self._scope.names.setdefault(node, self._names.take(wanted, node.name))

    def _comment(self, node: fx.Node, name: str | None) -> str:
        """What the first line of a node's statement ends with; name: what the node is called in the text."""
        return f"  # {node.name}" if node.name in self.writer.named and node.name != name else ""

    def _line(self, text: str, comment: str = "") -> None:
        first, *rest = text.split("\n")
        self.lines.append("\n".join([" " * self._indent + first + comment, *rest]))

    @property
    def _indent(self) -> int:
        return INDENT * (1 + len(self.open_contexts))

    def _attribute(self, node: fx.Node, wanted: str) -> None:
        value = value_of(self.gm, node)
        if isinstance(value, torch.Tensor):
            self._scope.names[node] = self.writer.constant(value, wanted)
        elif isinstance(value, fx.GraphModule):
            self._scope.names[node] = self.writer.nested(value, clean_name(node.name))
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
            self._line(in_place, self._comment(node, None))
            if node.users:
                assert isinstance(node.args[0], fx.Node)
                self._scope.names[node] = self._scope.names[node.args[0]]
        else:
            self._assignment(node)

    def _assignment(self, node: fx.Node) -> None:
        name = self._name(node, clean_name(node.name, _overload(node))) if node.users else None
        to, comment = f"{name} = " if name else "", self._comment(node, name)
        place = Place(self._indent, len(to) + len(comment))
        self._line(to + (self._higher_order(node, place) or expression(node, self._scope, place)), comment)

    def _leave(self, node: fx.Node) -> None:
        if not self.open_contexts or self.open_contexts.pop() is not node.args[0]:
            raise CannotWrite("autocast regions overlap without one being inside the other")
        if self.lines[-1].lstrip().startswith("with "):
            self.lines.append(" " * (self._indent + INDENT) + "pass")

    def _higher_order(self, node: fx.Node, place: Place) -> str | None:
        """The public form of a call with functions among its arguments; None for any other call."""
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            return None
        arguments = self._scope.arguments(node.args, node.kwargs)
        if node.target is torch.ops.higher_order.tag_activation_checkpoint:
            self.writer.imports.add("import torch.utils.checkpoint")
            return call_source("torch.utils.checkpoint.checkpoint", arguments, place)
        if node.target is torch.ops.higher_order.cond:
            return call_source("torch.cond", arguments, place)
        return function_name(node.target, self._scope)  # says why it cannot be written


def _overload(node: fx.Node) -> str:
    """`mul.Tensor` where an ATen op was captured, else nothing."""
    target = node.meta.get(CAPTURED, node.target)
    return target.__name__ if isinstance(target, torch._ops.OpOverload) else ""


def _autocast(node: fx.Node) -> str:
    arguments: Any = node.args
    options: Any = node.kwargs
    return autocast_source(*arguments, **options)
