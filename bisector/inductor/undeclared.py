"""Operators that write into an argument which their schema says they only read, as one of
`torch.library.custom_op` does whose `mutates_args` leaves the argument out.

A compiler may run what reads such an argument before the operator or after it, so that two right programs
give different values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload, OpOverloadPacket

from . import tensors

_OF_TORCH = frozenset({"aten", "prims", "prim", "higher_order"})


def writes_of(target: Any, args: Any, kwargs: Any, run: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, and in words into which argument it wrote undeclared; "" where into none."""
    op = _own_operator(target)
    if op is None:
        return run(), ""
    read = dict(_read(op, args, kwargs))
    before = {name: tensors.digest([value]) for name, value in read.items()}
    result = run()
    written = next((name for name, value in read.items() if tensors.digest([value]) != before[name]), None)
    if written is None:
        return result, ""
    said = f"writes into `{written}`, which its schema says it only reads"
    return result, f"the operator {op.overloadpacket} {said}"


class GivenCopies(torch.fx.Interpreter):
    """Runs a graph in eager in which such operators are given copies, so that what they write is lost."""

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op != "call_function" or _own_operator(n.target) is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        copies = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        return self.call_function(n.target, *copies)


def _own_operator(target: Any) -> OpOverload | None:
    """The operator where it is none of torch's; of several overloads none is taken."""
    if isinstance(target, OpOverloadPacket) and len(names := target.overloads()) == 1:
        target = getattr(target, names[0])
    is_own = isinstance(target, OpOverload) and target.namespace not in _OF_TORCH
    return target if is_own else None


def _read(op: OpOverload, args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    arguments = op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    for argument in arguments:
        value = given.get(argument.name)
        if isinstance(value, torch.Tensor) and not (argument.alias_info and argument.alias_info.is_write):
            yield argument.name, value
