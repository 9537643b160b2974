"""The values of two runs of one program, by path, measured against each other: the one place that says how
compiled stands to eager.

A value that cannot be kept, or not compared, is held by something in its place (`Digest`, `Rest`, `Unseen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.model import Measurement, OutputMeasurement
from .equality import digest, parts
from .measure import Exact, compare

Values = dict[str, Any]  # path (`output[0]`, `grad[x]`, `state[w]`) -> tensor, plain value, or what holds it
SAMPLE = 1 << 16  # elements of a value too large to keep


@dataclass(frozen=True)
class Digest:
    """A tensor that is too large to keep. bits: a digest of all its elements. sample: some of them, evenly
    spaced."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: str
    sample: torch.Tensor

    @classmethod
    def of(cls, value: torch.Tensor) -> Digest:
        flat = value.detach().reshape(-1)
        step = max(1, -(-flat.numel() // SAMPLE))
        return cls(tuple(value.shape), value.dtype, digest([value]), flat[::step].clone())


@dataclass(frozen=True)
class Unseen:
    """In the place of a value of which nothing is compared. what: its type, in words."""

    what: str


@dataclass(frozen=True)
class Rest:
    """In the place of values that are compared by their digest alone: one that differs proves nothing, since
    numbers that rounding moves are among them."""

    count: int
    bits: str


def size_of(values: Values) -> int:
    """Bytes of the tensors among the values."""
    return sum(v.numel() * v.element_size() for v in values.values() if isinstance(v, torch.Tensor))


def digests_of(values: Values) -> Values:
    """The values, of the larger tensors their digest alone."""
    return {
        path: Digest.of(value) if isinstance(value, torch.Tensor) and value.numel() > SAMPLE else value
        for path, value in values.items()
    }


def measured(
    eager: Mapping[str, Any],
    compiled: Mapping[str, Any],
    reference: Mapping[str, Exact] | None = None,
    call: int | None = None,
) -> Measurement:
    """How the values of a run stand to eager's: all that either of the two has, eager's first.

    call: the place of the call that they are of, where there are several; each is then numbered by it, and
    otherwise by its own place.
    """
    found, same, unseen = list[OutputMeasurement](), 0, None
    for place, path in enumerate(dict.fromkeys((*eager, *compiled))):
        index = place if call is None else call
        value, other = eager.get(path, _NOTHING), compiled.get(path, _NOTHING)
        one, missing = _compared(index, path, value, other, (reference or {}).get(path))
        unseen = unseen or missing
        if one is not None:
            found.append(one)
        elif missing is None and _is_value(value) and _is_value(other):
            same += 1
    return Measurement(tuple(found), same=same, unseen=unseen)


_NOTHING = object()  # in the place of a value that one of the two runs does not have


def _is_value(held: Any) -> bool:
    """An output that is None counts as no value."""
    return held is not None and held is not _NOTHING


def _compared(
    index: int, path: str, eager: Any, compiled: Any, reference: Exact | None
) -> tuple[OutputMeasurement | None, str | None]:
    """The measurement, None of equal values that are no numbers; and what was not compared."""
    if eager is _NOTHING or compiled is _NOTHING:
        return _one_sided(index, path, eager, compiled), None
    if isinstance(eager, (Unseen, Rest)) or isinstance(compiled, (Unseen, Rest)):
        return None, _unseen(path, eager, compiled)
    if isinstance(eager, Digest):
        return _compared_by_digest(index, path, eager, compiled)
    return _by_value(index, path, eager, compiled, reference), None


def _one_sided(index: int, path: str, eager: Any, compiled: Any) -> OutputMeasurement | None:
    """A value that the other run lacks."""
    there = compiled if eager is _NOTHING else eager
    if there is None or isinstance(there, Unseen):
        return None
    kind = _kind(there)
    mismatch = f"{kind} that eager does not have" if eager is _NOTHING else f"nothing instead of {kind}"
    return OutputMeasurement(index, path, type(there).__name__, (), 1, alias_mismatch=mismatch)


def _kind(there: Any) -> str:
    """What a value is, in words. AOTAutograd gives zeros where eager makes no gradient at all, which is not
    the same to an optimizer (pytorch#186355)."""
    if isinstance(there, (Digest, Rest)):
        return "a value"
    has_values = isinstance(there, torch.Tensor) and there.device.type != "meta" and there.numel() > 0
    zeros = has_values and not parts(there).any()
    return f"a {type(there).__name__}{' of zeros' if zeros else ''}"


def _unseen(path: str, eager: Any, compiled: Any) -> str | None:
    if eager == compiled and isinstance(eager, Rest):
        return None
    if isinstance(eager, Rest) and isinstance(compiled, Rest):
        return f"{path}: {eager.count} values were compared by a digest alone, which differs"
    return f"{path}, {next(v.what for v in (eager, compiled) if isinstance(v, Unseen))}, cannot be compared"


def _by_value(
    index: int, path: str, eager: Any, compiled: Any, reference: Exact | None
) -> OutputMeasurement | None:
    """As values are compared; of equal tensors also whether they record gradients, and where they are."""
    found = compare(index, path, eager, compiled, reference)
    if not (isinstance(eager, torch.Tensor) and isinstance(compiled, torch.Tensor)):
        return found
    for what in ("requires_grad", "device"):
        one, two = (str(getattr(side, what)) for side in (eager, compiled))
        if one != two and found is not None:
            return replace(found, alias_mismatch=f"{what} {two} instead of {one}")
    return found


def _compared_by_digest(
    index: int, path: str, eager: Digest, compiled: Any
) -> tuple[OutputMeasurement | None, str | None]:
    same_shape = isinstance(compiled, torch.Tensor) and tuple(compiled.shape) == eager.shape
    if not same_shape or compiled.dtype != eager.dtype:
        shape_alone = torch.empty(eager.shape, dtype=eager.dtype, device="meta")
        return compare(index, path, shape_alone, compiled), None
    now = Digest.of(compiled)
    found = compare(index, path, eager.sample, now.sample)
    assert found is not None
    if now.bits == eager.bits:
        return replace(found, shape=eager.shape, numel=compiled.numel()), None
    some = f"{eager.sample.numel()} of its {compiled.numel()} elements were compared"
    return found, f"{path} is too large to keep, and not bit-equal to eager's: {some}"
