"""A captured graph as the Python function that a person would write.

One assignment a node, under the node's name without its number. Where a decision ID (`fma:sub@mul_1`) speaks
of a node that is renamed, a comment on its line has the name, so that the ID can be read against the text.
"""

from __future__ import annotations

import builtins
import keyword
import re
import types
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from ...core.decision import DecisionId
from ...errors import first_line
from ..equality import same
from ..naming import named_by
from ..tensors import as_list, fresh, grad_flags
from .ops_source import Scope, autocast_source, expression, function_name, statement_in_place
from .smaller_inputs import value_of
from .tensor_literals import Source, evaluate, literal
from .values import CannotWrite, Place, call_source, concrete, value_source

INDENT = 4
# Names that the emitted files use themselves.
RESERVED = frozenset({
    "torch", "F", "math", "operator", "os", "sys", "base64", "zlib", "inf", "nan", "self", "fn", "inputs",
    "grad_outputs", "unpack", "run", "expected", "actual", "Model", "COMPARED", "contextlib", "settings",
    "Differs", "said",
})  # fmt: skip


@dataclass(frozen=True)
class FunctionSource:
    """The text of `def name(parameters): ...` and what must stand before it.

    constants: tensors that the graph carries itself, as module-level names; imports: whole lines.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    imports: tuple[str, ...] = ()
    constants: Mapping[str, Source] = field(default_factory=dict)

    def given_constants(self) -> FunctionSource:
        """The same function where the constants are further parameters of the text, under their own names.

        `parameters` stays what a caller gives: who holds the constants passes them after these.
        """
        *nested, main = self.text.split("\n\n")
        _, body = main.split(":\n", 1)
        head = call_source(f"def {self.name}", [*self.parameters, *self.constants])
        return replace(self, text="\n\n".join([*nested, f"{head}:\n{body}"]))


def function_source(
    gm: fx.GraphModule, name: str = "fn", decisions: Iterable[DecisionId] = ()
) -> FunctionSource:
    """The function of a Dynamo graph. decisions: IDs that will be read next to it.

    Raises CannotWrite where some node has no exact plain form.
    """
    nodes = {node.name for node in gm.graph.nodes}
    writer = Writer({name for decision in decisions for name in named_by(decision, nodes)})
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

    Raises CannotWrite unless all outputs, and all inputs after the run, are bit-equal (NaN equals NaN), or
    both raise the same.
    """
    flags = grad_flags(inputs)
    runs: list[Any] = []
    for function in (fx.Interpreter(gm).run, build(source)):
        arguments = fresh([concrete(value) for value in inputs], flags)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            try:
                runs.append((function(*arguments), arguments))
            except Exception as error:  # noqa: BLE001 - a graph may raise anything, and its source must too
                runs.append(error)
    raised = [first_line(run) if isinstance(run, Exception) else None for run in runs]
    if any(raised):
        if raised[0] == raised[1]:
            return
        who, message = ("its source", raised[1]) if raised[0] is None else ("the graph", raised[0])
        raise CannotWrite(f"{who} raises {message}")
    (expected, expected_inputs), (made, made_inputs) = runs
    if not same(as_list(expected), as_list(made)):
        raise CannotWrite("the source of the graph gives other outputs than the graph")
    if not same(expected_inputs, made_inputs):
        raise CannotWrite("the source of the graph leaves other values in its inputs than the graph")


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
    return node.target.__name__ if isinstance(node.target, torch._ops.OpOverload) else ""


def _autocast(node: fx.Node) -> str:
    arguments: Any = node.args
    options: Any = node.kwargs
    return autocast_source(*arguments, **options)


class Names:
    """Hands out unique names that are neither keywords, builtins nor names of the file itself.

    kept: names that nobody may get but who has them as its own.
    """

    def __init__(self, taken: Iterable[str] = (), kept: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED
        self._kept = frozenset(kept)

    def take(self, wanted: str, own: str = "") -> str:
        """`wanted`, or the first of `wanted_1`, `wanted_2`... that is free. own: whose name it will be."""
        stem = wanted if wanted.isidentifier() else "v" + re.sub(r"\W", "_", wanted)
        name, count = stem, 0
        while not self._free(name, own):
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def inner(self) -> Names:
        """Names for the inside of a function, where those given out so far can be read."""
        return Names(self._taken, self._kept)

    def _free(self, name: str, own: str) -> bool:
        if name in self._taken or keyword.iskeyword(name) or hasattr(builtins, name):
            return False
        return name == own or name not in self._kept


def clean_name(node_name: str, overload: str = "") -> str:
    """`linear` of `linear_26`, `add` of `add__1`: FX counts names over the whole graph that was captured.

    overload: `sum.dim_IntList`, of a node that calls it; FX then makes the name of it, `sum_dim_int_list_3`.
    """
    name = re.sub(r"(?:_\d+)+$", "", node_name).rstrip("_") or node_name
    after_overload = name.replace("_", "") == re.sub(r"[._]", "", overload).lower()
    return overload.partition(".")[0].strip("_") if overload and after_overload else name


def input_names(placeholders: Sequence[str]) -> list[str]:
    """What each input is called: the last part of where Dynamo found it, `weight` of `self.conv.weight`, with
    the names of its modules in front as far as they distinguish two. Two without modules may share a name.
    """
    paths = [_path(name) for name in placeholders]
    depths = [1] * len(paths)
    while True:
        names = ["_".join(path[-depth:]) for path, depth in zip(paths, depths, strict=True)]
        count = Counter(names)
        longer = [
            i
            for i, name in enumerate(names)
            if (count[name] > 1 or not name.isidentifier()) and depths[i] < len(paths[i])
        ]
        if not longer:
            return names
        for i in longer:
            depths[i] += 1


def _path(placeholder: str) -> tuple[str, ...]:
    """`("conv", "weight")` of `l_self_modules_conv_parameters_weight_`.

    Dynamo spells the source of an input, `L['self']._modules['conv']._parameters['weight']`, with underscores
    (torch/_dynamo/output_graph.py, `create_graph_input`); the local that holds the modules says nothing. Any
    other name is that of a node whose value the input holds.
    """
    if not re.match(r"[lg]_\D", placeholder.lower()):
        return (clean_name(placeholder),)
    path = re.sub(r"__\d+$", "", placeholder[2:]).strip("_").lower()  # FX numbers a name that it gave before
    local, *members = re.split(r"_(?:modules|parameters|buffers)_", path)
    return tuple(members) or (local.removeprefix("self").strip("_") or local,)
