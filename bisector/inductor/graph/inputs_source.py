"""The inputs of a graph as a function that makes them afresh; storages that inputs share stay shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..equality import same
from .tensor_literals import Source, check_plain, literal, text_names
from .values import LINE_WIDTH, CannotWrite, call_source, concrete, filled, value_source


def arguments_source(
    name: str,
    parameters: Sequence[str],
    values: Sequence[Any],
    requires_grad: Sequence[bool],
    default_dtype: torch.dtype | None = torch.float32,
) -> Source:
    """`def name(): ...` that returns a list of `values`, made afresh, under the names `parameters`.

    default_dtype: as of `literal`. Raises CannotWrite where a value has no exact text.
    """
    values = [concrete(value) for value in values]
    sources = _sources(parameters, values, default_dtype)
    grads = dict(zip(parameters, requires_grad, strict=True))
    lines = [f"def {name}():"]
    blobs: dict[str, str] = {}
    for target, source in sources:
        lines.append(f"    {target} = {source.text}{'.requires_grad_()' if grads.get(target) else ''}")
        blobs.update(source.blobs)
    lines.append("    return " + list_source(parameters))
    arguments = Source("\n".join(lines) + "\n", blobs)
    _check(name, arguments, values, requires_grad)
    return arguments


def list_source(names: Sequence[str]) -> str:
    line = f"[{', '.join(names)}]"
    return line if len(line) < LINE_WIDTH - 12 else "[\n" + filled(names, " " * 8) + "\n    ]"


def _sources(
    parameters: Sequence[str],
    values: Sequence[Any],
    default_dtype: torch.dtype | None,
) -> Iterator[tuple[str, Source]]:
    """(name, text) pairs in the order in which they must stand; a storage comes before its views."""
    groups: dict[int, list[int]] = {}
    for position, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            check_plain(value)
            groups.setdefault(value.untyped_storage()._cdata, []).append(position)
    shared = {position: group for group in groups.values() if len(group) > 1 for position in group}
    for position, (name, value) in enumerate(zip(parameters, values, strict=True)):
        if not isinstance(value, torch.Tensor):
            yield name, Source(value_source(value))
        elif position not in shared:
            yield name, literal(value, name, default_dtype=default_dtype)
        else:
            yield from _view(position, shared[position], parameters, values, default_dtype)


def _view(
    position: int, group: Sequence[int], parameters: Sequence[str], values: Sequence[Any],
    default_dtype: torch.dtype | None,
) -> Iterator[tuple[str, Source]]:  # fmt: skip
    """One of several inputs over one storage; the first of them brings the storage along."""
    members = [values[p] for p in group]
    storage = parameters[group[0]] + "_storage"
    if len({member.dtype for member in members}) > 1:
        raise CannotWrite("inputs share a storage under different dtypes")
    start = min(member.storage_offset() for member in members)
    if position == group[0]:
        end = max(map(_end, members))
        whole = members[0].detach().as_strided((end - start,), (1,), start)
        yield storage, literal(whole, storage, default_dtype=default_dtype)
    value = values[position]
    where = [tuple(value.shape), tuple(value.stride()), value.storage_offset() - start]
    yield (
        parameters[position],
        Source(call_source(f"{storage}.as_strided", [value_source(w) for w in where])),
    )


def _end(tensor: torch.Tensor) -> int:
    reach: int = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset()) + (reach + 1 if tensor.numel() else 0)


def _check(name: str, arguments: Source, values: Sequence[Any], requires_grad: Sequence[bool]) -> None:
    names = text_names(arguments.blobs)
    exec(arguments.text, names)
    made = names[name]()
    for value, copy, grad in zip(values, made, requires_grad, strict=True):
        equal = same(value, copy)
        if equal and isinstance(value, torch.Tensor):
            equal = (copy.stride(), copy.requires_grad, copy.is_leaf) == (value.stride(), grad, True)
        if not equal:
            raise CannotWrite(f"the source of {name}() does not give the same values")
