"""A captured graph as the Python function that a person would write.

One assignment a node, under the node's name without its number. Where a decision ID (`fma:sub@mul_1`) speaks
of a node that is renamed, a comment on its line has the name, so that the ID can be read against the text.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from ..naming import named_by
from ..tensors import as_list, fresh, grad_flags, same_values
from .statements import Writer
from .tensor_literals import Source, evaluate
from .values import CannotWrite, call_source, concrete


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
    gm: fx.GraphModule, name: str = "fn", decisions: Iterable[str] = ()
) -> FunctionSource:
    """The function of a Dynamo graph. decisions: IDs that will be read beside it.

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

    Raises CannotWrite unless all outputs, and all inputs after the run, are bit-equal (NaN equals NaN).
    """
    flags = grad_flags(inputs)
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
