"""Copies of graph inputs that keep what a compiler can see: strides, offsets, shared storage, leafness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch


def dtype_name(dtype: torch.dtype) -> str:
    """`float16` of `torch.float16`: as dtypes are written in answers, IDs and tolerances."""
    return str(dtype).removeprefix("torch.")


def as_list(returned: Any) -> list[Any]:
    """What a program or a graph returns: the values of a tuple or a list, or the one that stands alone."""
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


class KeptStorages:
    """Copies of storages for snapshots that are kept and never written to: one that holds what it held when
    it was copied last is not copied again. Parameters are inputs of each call, and seldom change."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int, torch.device], torch.UntypedStorage] = {}
        self.bytes = 0

    def copied(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if self._holds(storage):
            return self._copies[_place(storage)]
        self.bytes += storage.nbytes()
        made = self._copies[_place(storage)] = storage.clone()
        return made

    def missing(self, values: Iterable[Any]) -> int:
        """Bytes that a snapshot of these values would copy."""
        plain = [v for v in values if isinstance(v, torch.Tensor) and _is_plain(v)]
        storages = {_place(v.untyped_storage()): v.untyped_storage() for v in plain}
        others = [v for v in values if isinstance(v, torch.Tensor) and not _is_plain(v)]
        return nbytes(others) + sum(s.nbytes() for s in storages.values() if not self._holds(s))

    def _holds(self, storage: torch.UntypedStorage) -> bool:
        earlier = self._copies.get(_place(storage))
        return earlier is not None and torch.equal(as_bytes(earlier), as_bytes(storage))


def _place(storage: torch.UntypedStorage) -> tuple[int, int, torch.device]:
    return storage.data_ptr(), storage.nbytes(), storage.device


def as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """A view of a storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # type: ignore[call-overload, no-any-return]


def snapshot(values: Sequence[Any], kept: KeptStorages | None = None) -> list[Any]:
    """Detached copies of the tensors among `values`; other values as they are.

    Tensors that share a storage share one in the copy too, and every copy keeps its strides and offset. kept:
    what earlier snapshots hold, for one that is not written to.
    """
    storages: dict[int, Any] = {}
    return [_copy(v, storages, kept) if isinstance(v, torch.Tensor) else v for v in values]


def fresh(values: Sequence[Any], requires_grad: Sequence[bool]) -> list[Any]:
    """A snapshot whose tensors are leaves that require gradients where the flags say so."""
    copies = snapshot(values)
    for copy, flag in zip(copies, requires_grad, strict=True):
        if flag and isinstance(copy, torch.Tensor):
            copy.requires_grad_()
    return copies


def grad_flags(values: Iterable[Any]) -> list[bool]:
    """For each value whether it is a tensor that requires gradients: what `fresh` takes."""
    return [isinstance(value, torch.Tensor) and value.requires_grad for value in values]


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is strided memory and nothing else."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return plain and not tensor.is_quantized and tensor.device.type != "meta"


def _copy(tensor: torch.Tensor, storages: dict[int, Any], kept: KeptStorages | None) -> torch.Tensor:
    if not _is_plain(tensor):
        return tensor.detach().clone()
    detached = tensor.detach()
    storage = detached.untyped_storage()
    key = storage.data_ptr()
    if key == 0 or storage.nbytes() == 0:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
    if key not in storages:
        storages[key] = storage.clone() if kept is None else kept.copied(storage)
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copy.set_(storages[key], detached.storage_offset(), detached.shape, detached.stride())
    if tensor.is_conj():
        copy = torch.conj(copy)
    return torch._neg_view(copy) if tensor.is_neg() else copy


def lies_as_new(tensor: torch.Tensor) -> bool:
    """Whether it lies in memory as a new tensor of its shape does: in these strides, alone in its storage.

    What is no plain strided memory, and cannot be laid out otherwise, counts as new.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return True
    if tensor.is_conj() or tensor.is_neg():
        return False
    strides = torch.empty(tensor.shape, device="meta").stride()  # is_contiguous() forgives odd ones of size 1
    return tensor.stride() == strides and _nbytes(tensor) == tensor.numel() * tensor.element_size()


def nbytes(values: Sequence[Any]) -> int:
    """Bytes held by the tensors among `values`."""
    return sum(_nbytes(v) for v in values if isinstance(v, torch.Tensor))


def _nbytes(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided:
        return tensor.numel() * tensor.element_size()  # no storage to ask; as if it were dense
    return tensor.untyped_storage().nbytes()
