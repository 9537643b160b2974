"""Arguments of a call that read a node and need not: those with a default, and those that may be a number.

What a call takes is read from its schemas or its signature. Where there is none, nothing is known.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, get_args

import torch
from torch import fx
from torch.fx.operator_schemas import get_signature_for_torch_op

from ...core.graphinfo import Place
from . import liveness
from .ops_source import IN_PLACE, INFIX
from .smaller_inputs import to_digits

_LITERALS = (NoneType, bool, int, float, str)
_NEED_TENSORS = ("matmul", "imatmul", "is_", "is_not")
# Operators of Python that take a number for a tensor on either side.
_OPERATORS = {getattr(operator, name) for name in (*INFIX, *IN_PLACE) if name not in _NEED_TENSORS}


class NoSuchArgument(Exception):
    """A call has no argument at a place, or what stands there cannot become what is asked."""


def defaults(node: fx.Node) -> dict[Place, Any]:
    """The default of each argument that reads a node, where it has one that is a literal."""
    found: dict[Place, Any] = {}
    for signature in _signatures(node):
        for place, parameter, value in _bound(node, signature):
            if isinstance(value, fx.Node) and isinstance(parameter.default, _LITERALS):
                found.setdefault(place, parameter.default)
    return found


def numeric(node: fx.Node) -> list[Place]:
    """The arguments that read a node where the same call takes a number, the others as they are."""
    places = dict.fromkeys(place for s in _signatures(node) for place in _numbers(list(_bound(node, s))))
    if node.target in _OPERATORS:
        places = dict.fromkeys(i for i, value in enumerate(node.args) if isinstance(value, fx.Node))
    is_owner = node.op == "call_method" or liveness.mutates(node)  # whose method it is, or what is written
    return [place for place in places if place != 0 or not is_owner]


def read_at(node: fx.Node, place: Place) -> str:
    """The name of the node that is read there."""
    return str(_at(node, place).name)


def put(gm: fx.GraphModule, arguments: Sequence[tuple[str, Place, str]], inputs: Mapping[str, Any]) -> None:
    """Change what stands at these places; see `core.case.Case.arguments`. inputs: tensors by name."""
    nodes = {n.name: n for n in gm.graph.nodes}
    for name, place, instead in arguments:
        if name in nodes:  # else it went with an edit that came after
            _put(nodes[name], place, _value(nodes[name], place, instead, inputs))


def _value(node: fx.Node, place: Place, instead: str, inputs: Mapping[str, Any]) -> Any:
    """Raises NoSuchArgument where there is none."""
    read = _at(node, place)
    if instead == "default":
        known = defaults(node)
        if place not in known:
            raise NoSuchArgument(f"{node.name} has no default for {place}")
        return known[place]
    if read.op != "placeholder":
        raise NoSuchArgument(f"{read.name} is no input")
    kind, *digits = instead.split(":")
    if kind == "one":
        return torch.ones((), dtype=inputs[read.name].dtype).item()
    flat, index = inputs[read.name].reshape(-1), int(digits.pop(0))
    if index >= flat.numel():
        raise NoSuchArgument(f"{read.name} has no element {index}")
    number = flat[index].item()
    return type(number)(to_digits(number, int(digits[0]))) if digits else number


def _put(node: fx.Node, place: Place, value: Any) -> None:
    if isinstance(place, int):
        node.update_arg(place, value)
    else:
        node.update_kwarg(place, value)


def _at(node: fx.Node, place: Place) -> fx.Node:
    there = isinstance(place, str) or place < len(node.args)
    value = (node.kwargs.get(place) if isinstance(place, str) else node.args[place]) if there else None
    if not isinstance(value, fx.Node):
        raise NoSuchArgument(f"{node.name} reads no node at {place}")
    return value


def _bound(node: fx.Node, signature: inspect.Signature) -> Iterator[tuple[Place, inspect.Parameter, Any]]:
    """Place, parameter and value of each argument that is given; nothing where they do not fit."""
    try:
        given = signature.bind(*node.args, **node.kwargs).arguments
    except TypeError:
        return
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if name in given:
            yield name if name in node.kwargs else position, parameter, given[name]


def _numbers(bound: Sequence[tuple[Place, inspect.Parameter, Any]]) -> list[Place]:
    """The one place that must be a number in this overload, where the call reads a node."""
    places = [place for place, p, value in bound if isinstance(value, fx.Node) and _is_number(p)]
    return places if len(places) == 1 else []


def _is_number(parameter: inspect.Parameter) -> bool:
    return numbers.Number in (parameter.annotation, *get_args(parameter.annotation))


def _signatures(node: fx.Node) -> Sequence[inspect.Signature]:
    if node.op == "call_method":
        packet = getattr(torch.ops.aten, str(node.target), None)
        return _signatures_of(packet) if packet is not None else ()
    if node.op != "call_function" or not node.all_input_nodes:
        return ()
    target = node.target
    return _signatures_of(target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target)


@functools.cache
def _signatures_of(target: Any) -> Sequence[inspect.Signature]:
    """One for each overload. A function that Python can look into has one."""
    try:
        return get_signature_for_torch_op(target) or (inspect.signature(inspect.unwrap(target)),)
    except Exception:  # noqa: BLE001 - types that torch cannot read, and builtins without a signature
        return ()
