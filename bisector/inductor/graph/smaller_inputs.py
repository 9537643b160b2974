"""Inputs cut down: without the gaps that slicing leaves, in plain strides and dtypes, with simpler values;
and the tensors that a graph carries itself, which a case may cut and simplify too.

Dynamo leaves parameters and buffers in the graph where they are to be folded (freezing).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.fx

from .tensor_literals import DRAWN, drawn


def compact(x: torch.Tensor) -> torch.Tensor:
    """A copy without the gaps that slicing left, its dimensions in the same order in memory."""
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda d: (-strides[d], d))
    back = [order.index(d) for d in range(x.dim())]
    return contiguous(x.permute(order)).permute(back)


def contiguous(x: torch.Tensor) -> torch.Tensor:
    """A copy in the strides of a new tensor, at the start of memory of its own."""
    return x.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


def cast(value: Any, dtype: torch.dtype) -> Any:
    """A floating-point tensor in that dtype, in its own strides; anything else as it is."""
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floats else value


def simplify(x: torch.Tensor, how: str) -> torch.Tensor:
    """The input with simpler values, in strides of its own; see `core.case.Case.values`."""
    name, _, number = how.partition(":")
    simpler = _SIMPLER[name](x, int(number or 0))
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(simpler)


def _same(x: torch.Tensor, at: int) -> torch.Tensor:
    return torch.full_like(x, x.reshape(-1)[at].item())


def _only(x: torch.Tensor, at: int) -> torch.Tensor:
    flat = torch.zeros_like(x).reshape(-1)
    flat[at] = x.reshape(-1)[at]
    return flat.reshape(x.shape)


def _digits(x: torch.Tensor, digits: int) -> torch.Tensor:
    rounded = [to_digits(v, digits) for v in x.reshape(-1).double().tolist()]
    return torch.tensor(rounded, dtype=torch.float64).to(x.dtype).reshape(x.shape)


_SIMPLER: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "zeros": lambda x, _: torch.zeros_like(x),
    "ones": lambda x, _: torch.ones_like(x),
    "same": _same,
    "only": _only,
    "integers": lambda x, _: x.round() + 0.0,  # no negative zero
    "digits": _digits,
    **{draw: partial(drawn, draw) for draw in DRAWN},
}


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The values times the factor, each product rounded once to the dtype."""
    return (x.double() * factor).to(x.dtype)


def to_digits(value: float, digits: int) -> float:
    """The number with so many significant decimal digits."""
    return float(f"{value:.{digits}g}")


def constants_of(gm: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors by the name of the node that gets them."""
    found = {n.name: value_of(gm, n) for n in gm.graph.find_nodes(op="get_attr")}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def value_of(gm: torch.fx.GraphModule, node: torch.fx.Node) -> object:
    """What a node that gets an attribute gives."""
    value: object = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def replace_constants(gm: torch.fx.GraphModule, values: Mapping[str, torch.Tensor]) -> None:
    """Give the graph other tensors, by the names of nodes; a parameter stays one."""
    for node in gm.graph.find_nodes(op="get_attr"):
        if node.name in values:
            path, _, name = str(node.target).rpartition(".")
            holder, old = gm.get_submodule(path), value_of(gm, node)
            new = values[node.name]
            if isinstance(old, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
            # Under its own name again, which may be held as a buffer, as a parameter or as a plain attribute.
            delattr(holder, name)
            if isinstance(new, torch.nn.Parameter):
                holder.register_parameter(name, new)
            else:
                holder.register_buffer(name, new)
