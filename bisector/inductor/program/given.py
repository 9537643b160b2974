"""The arguments that a call is given: how they differ from those of an earlier call, and
how a difference is undone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from .call_state import Change
from .places import in_two_words, in_words, is_same
from .reach import PLAIN, code_of

STRIDES, GRADIENTS = "the strides of", "whether gradients are required of"  # what changed of an argument


@dataclass(frozen=True)
class _OfArgument(Change):
    """Of one argument, by its place among the leaves. what: of a tensor, what changed. before: the leaf of
    the earlier call."""

    index: int
    what: str
    before: Any

    def of_inputs(self, flat: Sequence[Any]) -> Sequence[Any]:
        made = list(flat)
        made[self.index] = self._instead_of(made[self.index])
        return made

    def _instead_of(self, now: Any) -> Any:
        before = self.before
        if not isinstance(now, torch.Tensor):
            return before
        if self.what == GRADIENTS:
            return now.detach().requires_grad_(before.requires_grad)
        if self.what != STRIDES or now.shape != before.shape or 0 in before.stride():
            return now
        laid = torch.empty_strided(now.shape, before.stride(), dtype=now.dtype, device=now.device)
        return laid.copy_(now.detach()).requires_grad_(now.requires_grad)


@dataclass(frozen=True)
class _Overlap(Change):
    """Which arguments lie in the same memory."""

    def of_inputs(self, flat: Sequence[Any]) -> Sequence[Any]:
        return [_apart(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


class Given:
    """The arguments that a call is given; of tensors what a compiler sees of them."""

    def __init__(self, model: Any, args: Any, kwargs: Any) -> None:
        self.flat = pytree.tree_leaves((args, kwargs))
        self.names = names_of(model, args, kwargs)
        self.overlap = _overlapping(self.flat, self.names)
        self.alike = [_as_compiled(leaf) for leaf in self.flat]

    @property
    def objects(self) -> dict[str, Any]:
        """Those that are neither tensors nor plain, by name."""
        return _objects(self.names, self.flat)

    def changes(self, before: Given) -> list[Change]:
        """What is not as in an earlier call."""
        if self.names != before.names:
            return [Change("what is given", ", ".join(before.names), ", ".join(self.names))]
        found: list[Change] = []
        for i, (was, now) in enumerate(zip(before.alike, self.alike, strict=True)):
            name, one, other = f"`{self.names[i]}`", before.flat[i], self.flat[i]
            plainly = not isinstance(other, torch.Tensor) and not is_same(one, other)
            if plainly or was.keys() != now.keys():
                words = in_two_words(in_words(one), in_words(other))
                found.append(_OfArgument(name, *words, i, "", one))
                continue
            for what in now:
                if was[what] != now[what]:
                    found.append(_OfArgument(f"{what} {name}".strip(), was[what], now[what], i, what, one))
        if self.overlap != before.overlap:
            found.append(_Overlap("arguments that overlap in memory", before.overlap, self.overlap))
        return found


def objects_given(model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments that are neither tensors nor plain, by name."""
    return _objects(names_of(model, args, kwargs), pytree.tree_leaves((args, kwargs)))


def _objects(names: Sequence[str], flat: Sequence[Any]) -> dict[str, Any]:
    leaves = zip(names, flat, strict=True)
    return {name: leaf for name, leaf in leaves if not isinstance(leaf, (torch.Tensor, *PLAIN))}


def names_of(model: Any, args: Any, kwargs: Any) -> list[str]:
    """Of the leaves: `x`, `batch['mask']`, by the names of the parameters where these are known."""
    code = code_of(model)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    bound_first = isinstance(model, torch.nn.Module) or inspect.ismethod(model)
    if bound_first or not (inspect.isfunction(model) or isinstance(model, functools.partial)):
        parameters = parameters[1:]  # an object that is called
    named = dict(enumerate(parameters[: len(args)])) if not isinstance(model, functools.partial) else {}
    every = [(named.get(i, f"argument {i}"), value) for i, value in enumerate(args)]
    return [leaf for name, value in (*every, *kwargs.items()) for leaf in _leaves(name, value)]


def _leaves(name: str, value: Any) -> list[str]:
    """The names of the leaves of an argument."""
    try:
        paths, _ = pytree.tree_flatten_with_path(value)
    except ValueError:  # it holds a type that was registered without names for its parts
        return [f"{name}[{i}]" for i, _ in enumerate(pytree.tree_leaves(value))]
    return [f"{name}{pytree.keystr(path)}" for path, _ in paths]


def _as_compiled(leaf: Any) -> Mapping[str, str]:
    if not isinstance(leaf, torch.Tensor):
        return {"": in_words(leaf)}
    strides = leaf.stride() if leaf.layout is torch.strided else leaf.layout
    return {"": in_words(leaf), STRIDES: str(strides), GRADIENTS: str(leaf.requires_grad)}


def _overlapping(flat: Sequence[Any], names: Sequence[str]) -> str:
    spans = list[tuple[int, int, str]]()
    for name, leaf in zip(names, flat, strict=True):
        if isinstance(leaf, torch.Tensor) and (span := _span(leaf)) is not None:
            spans.append((*span, name))
    pairs, end, last = list[str](), 0, ""
    for start, stop, name in sorted(spans):  # each with the one before it that reaches farthest
        if start < end:
            pairs.append(f"`{last}` and `{name}`")
        if stop > end:
            end, last = stop, name
    return ", ".join(pairs) or "none"


def _span(tensor: torch.Tensor) -> tuple[int, int] | None:
    """The first and the last byte that a tensor reaches; None where it has no memory of its own."""
    if tensor.layout is not torch.strided or not tensor.numel() or tensor.device.type == "meta":
        return None
    try:
        start = tensor.data_ptr()
    except RuntimeError:  # a subclass that wraps others
        return None
    reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * tensor.element_size()
