"""Where in torch the formula of a lowering or a decomposition is written: `torch/_inductor/lowering.py:7472`.

Reads the tables `torch._inductor.lowering.lowerings` and `torch._inductor.decomposition.decompositions`, and
for ops that Python decomposes earlier `OpOverload.py_kernels`. Exercised on torch 2.13. Most pointwise ops
share one lowering, which only names an op of the code generator: its place says what is computed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor import decomposition, lowering
from torch._ops import OpOverload, OpOverloadPacket

from ..core.decision import DecisionId
from . import naming

Function = Callable[..., Any]
# Stands in the table of decompositions for ops that C++ decomposes: no formula is written there.
_STUBS = "torch/_export/"


def source_of(decision_id: DecisionId, device: str) -> str:
    """The `file:line` of the function behind a `lower` or `decomp` decision, "" where none is known.

    Several, with commas, where overloads have formulas of their own, since an ID does not name the overload.
    device: the type of the subject's device: its code generator counts.
    """
    functions = (_function(decision_id.kind, overload) for overload in _overloads(decision_id.op))
    places = (_place(_generated(found, device) or found) for found in functions if found is not None)
    return ", ".join(dict.fromkeys(p for p in places if p and not p.startswith(_STUBS)))


def _overloads(name: str) -> Iterator[OpOverload]:
    """The overloads of `aten.sum`; none where there is no such op."""
    namespace, _, op = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), op, None)
    if isinstance(packet, OpOverloadPacket):
        yield from (getattr(packet, overload) for overload in packet.overloads())


def _function(kind: str, overload: OpOverload) -> Function | None:
    tables: dict[str, Any] = {"lower": lowering.lowerings, "decomp": decomposition.decompositions}
    found = tables[kind].get(overload)
    if found is None and kind == "decomp":
        found = next((k for k in overload.py_kernels.values() if inspect.isfunction(k)), None)
    return _innermost(found) if found is not None else None


def _innermost(found: Function) -> Function:
    """The function that wrappers and bound arguments stand in front of."""
    while isinstance(found, functools.partial):
        found = found.func
    inner = inspect.unwrap(found)
    return inner if inner is found else _innermost(inner)


def _generated(found: Function, device: str) -> Function | None:
    """What the code generator writes for a lowering that only names one of its ops."""
    if "make_pointwise" not in getattr(found, "__qualname__", ""):
        return None
    fn = inspect.getclosurevars(found).nonlocals.get("fn")
    name = inspect.getclosurevars(fn).nonlocals.get("name") if inspect.isfunction(fn) else None
    overrides = _overrides(device)
    form = getattr(overrides, name, None) if isinstance(name, str) else None
    return _innermost(form) if inspect.isfunction(form) else None


def _overrides(device: str) -> type:
    if device == "cpu":
        from torch._inductor.codegen.cpp import CppOverrides

        return CppOverrides
    from torch._inductor.codegen.triton import TritonOverrides

    return TritonOverrides


def _place(found: Function) -> str:
    try:
        lines, first = inspect.getsourcelines(found)
        file = inspect.getfile(found)
    except (OSError, TypeError):  # built in, or made without a file
        return ""
    head = next((i for i, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return naming.place(file, first + head)
