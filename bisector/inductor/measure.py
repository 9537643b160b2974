"""Tensors to numbers: how a compiled output stands against eager's, and both against the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.far_elements import FEW, FarElements, far_steps
from ..core.model import OutputMeasurement
from .equality import parts, parts_differing
from .rounding import eps_of
from .tensors import dtype_name

_INT_OF = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


@dataclass(frozen=True)
class Exact:
    """An output in double precision; value: None where there is none. moved: how far one step of the dtype at
    each operation moves each of its elements in eager; reached: how far several do, asked where they differ;
    each None where that is not known."""

    value: torch.Tensor | None
    moved: torch.Tensor | None = None
    reached: Callable[[], torch.Tensor | None] = lambda: None


Pair = tuple[float, float, int]  # size, difference, and where they stand
_MOST_ULP = torch.iinfo(torch.int64).max


def compare(
    index: int, path: str, eager: Any, compiled: Any, reference: Exact | None = None
) -> OutputMeasurement | None:
    """Measure one output; None where neither side has a value to compare (both None).

    Values that are not tensors are compared as tensors of one element.
    """
    if eager is None and compiled is None:
        return None
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        return _compare_plain(index, path, eager, compiled, reference)
    shape, dtype = tuple(eager.shape), dtype_name(eager.dtype)
    head: dict[str, Any] = {
        "index": index, "path": path, "dtype": dtype, "shape": shape, "numel": eager.numel()
    }
    if tuple(compiled.shape) != shape:
        return OutputMeasurement(**head, shape_compiled=tuple(compiled.shape))
    if compiled.dtype != eager.dtype:
        return OutputMeasurement(**head, dtype_compiled=dtype_name(compiled.dtype))
    if _strides(compiled) != _strides(eager):
        head |= {"stride": _strides(eager), "stride_compiled": _strides(compiled)}
    if eager.numel() == 0:
        return OutputMeasurement(**head)
    e, c = parts(eager), parts(compiled)
    values = _values(e, c, _has_steps(eager))
    unexplained = _unexplained(e, c, reference) if values else {}
    return OutputMeasurement(**head, **values, **_errors(e, c, reference), **unexplained)


def _values(e: torch.Tensor, c: torch.Tensor, in_steps: bool) -> dict[str, Any]:
    """The numbers of two tensors of equal dtype, one row of parts for each element (`parts`)."""
    parts_differ = parts_differing(e, c)
    bits_differ = parts_differ.any(1)
    n_diff = int(bits_differ.sum())
    if n_diff == 0:
        return {}
    wide_e, wide_c = e.double(), c.double()
    finite_e, finite_c = wide_e.isfinite(), wide_c.isfinite()
    mismatch = (parts_differ & ~(finite_e & finite_c)).any(1)
    finite = bits_differ & finite_e.all(1) & finite_c.all(1)
    sizes, diffs = _modulus(wide_e[finite]), _modulus(wide_c[finite] - wide_e[finite])
    zeros = (e[finite] == c[finite]).all(1)
    if not e.is_floating_point():
        diffs = diffs.clamp(min=1.0)  # beyond 2**53 neighbours are equal in float64, but they are not equal
    magnitudes = _modulus(wide_e)[finite_e.all(1)]
    binding = frontier(sizes, diffs)
    places = finite.nonzero()[:, 0]
    worst = [*mismatch.nonzero()[:1, 0].tolist(), *(int(places[i]) for _, _, i in binding)]
    relative = diffs[sizes > 0] / sizes[sizes > 0]
    return {
        "n_diff": n_diff,
        "scale": float(magnitudes.max()) if magnitudes.numel() else 0.0,
        "sign_diff": int(zeros.sum()),
        "rises": int((wide_c[finite] > wide_e[finite]).sum()) if e.shape[1] == 1 else 0,
        "max_abs": float(diffs.max()) if diffs.numel() else 0.0,
        "max_rel": float(relative.max()) if relative.numel() else (float("inf") if diffs.any() else 0.0),
        "max_ulp": max_ulp(e[finite], c[finite]) if in_steps else None,
        "cosine": cosine(wide_e, wide_c) if e.is_floating_point() else None,
        "rms": _rms(diffs) * math.sqrt(diffs.numel() / e.shape[0]),
        "nonfinite_mismatches": int(mismatch.sum()),
        "frontier": tuple((size, diff) for size, diff, _ in binding),
        # Counted in parts: a complex element has two. Only signs of zeros differ where nothing binds.
        "worst": tuple(i * e.shape[1] for i in worst or places[:1].tolist()),
    }


def frontier(sizes: torch.Tensor, diffs: torch.Tensor) -> tuple[Pair, ...]:
    """The pairs that decide `diff <= atol + rtol*size` for all pairs and every tolerance, with their indices.

    A pair is dominated by one with a size no larger and a diff no smaller. Of the rest only the upper
    convex hull can be the tightest for some rtol >= 0.
    """
    at = (diffs > 0).nonzero()[:, 0]
    sizes, diffs = sizes[at], diffs[at]
    if sizes.numel() == 0:
        return ()
    # One cheap pass first: whatever is below the running maximum of smaller binades is dominated.
    binade = torch.frexp(sizes).exponent.to(torch.int64)
    binade = torch.where(sizes > 0, binade - binade.min() + 1, 0)
    best = torch.zeros(int(binade.max()) + 2, dtype=torch.float64)
    best.scatter_reduce_(0, binade + 1, diffs, "amax")
    undominated = diffs > best.cummax(0).values[binade]
    at, sizes, diffs = at[undominated], sizes[undominated], diffs[undominated]
    order = torch.argsort(sizes, stable=True)
    at, sizes, diffs = at[order], sizes[order], diffs[order]
    record = torch.ones_like(diffs, dtype=torch.bool)
    record[1:] = diffs[1:] > diffs.cummax(0).values[:-1]
    hull: list[Pair] = []
    for pair in zip(sizes[record].tolist(), diffs[record].tolist(), at[record].tolist(), strict=True):
        if hull and pair[0] == hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _below(hull[-2], hull[-1], pair):
            hull.pop()
        hull.append(pair)
    return tuple(hull)


def _below(a: Pair, b: Pair, c: Pair) -> bool:
    """Whether b lies on or under the line from a to c, so that no rtol makes it the tightest."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def _errors(e: torch.Tensor, c: torch.Tensor, reference: Exact | None) -> dict[str, Any]:
    if reference is None or reference.value is None or reference.value.numel() == 0:
        return {}
    given = parts(reference.value)
    if given.shape != e.shape:
        return {}
    r, step = given.double(), _step_of(e, given, reference.moved)
    rounded = given.to(e.dtype).double()
    out: dict[str, Any] = {}
    for name, value in (("rounding", rounded), ("error_eager", e.double()), ("error_compiled", c.double())):
        both = r.isfinite() & value.isfinite()
        out[f"rms_{name}"] = _rms((value - r)[both])
        if step is not None:
            out[f"steps_{name}"] = _rms(((value - r) / step)[both & (step > 0)])
    if step is not None and reference.moved is not None:
        out["far"] = _far(e, c, r, step)
    for name, value in (("eager", e.double()), ("compiled", c.double())):
        differ = (r.isfinite() != value.isfinite()) | (r.isinf() & value.isinf() & (r != value))
        out[f"reference_nonfinite_{name}"] = int(differ.any(1).sum())
    return out


def _far(e: torch.Tensor, c: torch.Tensor, r: torch.Tensor, step: torch.Tensor) -> FarElements:
    """r: the reference; step: as of `_step_of`."""
    most = far_steps(eps_of(e.dtype)) * step
    known = r.isfinite() & e.isfinite() & c.isfinite() & (step > 0)
    eager, compiled = (((side.double() - r).abs() > most) & known for side in (e, c))
    alone = (compiled & ~eager).any(1)
    by = (c.double() - e.double()).abs().amax(1)[alone].sort(descending=True).values
    count = int(alone.sum())
    return FarElements(count, int((eager & ~compiled).any(1).sum()), float(by[FEW]) if count > FEW else 0.0)


def _unexplained(e: torch.Tensor, c: torch.Tensor, reference: Exact | None) -> dict[str, Any]:
    """The elements that rounding before them does not move as far."""
    reached = None if reference is None else reference.reached()
    if reached is None:
        return {}
    same = (e == c) | (e.isnan() & c.isnan())
    reached = reached.to(e.device)
    unexplained = ~(same | ((c.double() - e.double()).abs() <= reached)).all(1)
    unmoved = unexplained & (reached == 0).all(1)
    return {"unexplained": int(unexplained.sum()), "unmoved": int(unmoved.sum())}


def _step_of(e: torch.Tensor, exact: torch.Tensor, moved: torch.Tensor | None) -> torch.Tensor | None:
    """What rounding alone may make of each element: a step of the dtype at its own size, and what one step at
    each operation moves it by; None for what has no rounding."""
    if not e.is_floating_point():
        return None
    eps, size = eps_of(e.dtype), exact.double().abs()
    finite = size[size.isfinite()]
    step = size * eps
    if moved is not None and moved.numel() == e.numel():
        step = step + moved.reshape(e.shape).to(step.device)
    least = float(finite.max()) * eps if finite.numel() else 0.0
    # Of an element that is 0, and that nothing moves, the others say what a step is.
    return torch.where(step > 0, step, least).nan_to_num(0.0, 0.0, 0.0)


def _rms(x: torch.Tensor) -> float:
    """Scaled by the largest, so that the squares neither overflow nor vanish."""
    largest = float(x.abs().max()) if x.numel() else 0.0
    if largest == 0.0 or largest == float("inf"):
        return largest
    return float((x / largest).square().mean().sqrt()) * largest


def _has_steps(x: torch.Tensor) -> bool:
    """Whether a step of the tensor's dtype is one of its parts' dtype: not where the parts were widened."""
    return x.dtype in _INT_OF or x.dtype in (torch.complex64, torch.complex128)


def max_ulp(e: torch.Tensor, c: torch.Tensor) -> int | None:
    if e.dtype not in _INT_OF or e.numel() == 0:
        return None
    a, b = _ordered(e), _ordered(c)
    opposite_signs = (a < 0) != (b < 0)
    if not bool(opposite_signs.any()):
        return int((a - b).abs().max())
    # On two sides of zero the distances to it add up, which may be more than an int64 holds.
    added = torch.where(a.abs() > _MOST_ULP - b.abs(), _MOST_ULP, a.abs() + b.abs())
    return int(torch.where(opposite_signs, added, (a - b).abs()).max())


def cosine(e: torch.Tensor, c: torch.Tensor) -> float:
    """Of the angle between two tensors of float64 as vectors, over what is finite in both; 0 where only one
    has a length, 1 where neither has."""
    both = e.isfinite() & c.isfinite()
    e, c = e[both], c[both]
    if not (e.any() and c.any()):
        return 0.0 if e.any() or c.any() else 1.0
    # Scaled, so that the squares neither overflow nor vanish.
    return float(torch.nn.functional.cosine_similarity(e / e.abs().max(), c / c.abs().max(), dim=0))


def _ordered(x: torch.Tensor) -> torch.Tensor:
    """Floats as integers in the order of the floats, neighbours differing by 1, both zeros 0."""
    ints = _INT_OF[x.dtype]
    bits = x.contiguous().view(ints).to(torch.int64)
    return torch.where(bits < 0, -(bits - torch.iinfo(ints).min), bits)


def _modulus(parts: torch.Tensor) -> torch.Tensor:
    return parts[:, 0].abs() if parts.shape[1] == 1 else torch.hypot(parts[:, 0], parts[:, 1])


def _compare_plain(
    index: int, path: str, eager: Any, compiled: Any, reference: Exact | None
) -> OutputMeasurement | None:
    numbers = (bool, int, float, complex)
    both = isinstance(eager, numbers) and isinstance(compiled, numbers)
    if both and (as_tensors := _as_tensors(eager, compiled)) is not None:
        found = compare(index, path, *as_tensors, reference)
        if found is None or found.dtype != "float64" or any(map(_is_lost, (eager, compiled))):
            return found
        # Most come of a tensor of float32, to whose tolerance they are held if it holds them.
        return replace(found, dtype="float32", max_ulp=None)
    if type(eager) is type(compiled) and not isinstance(eager, torch.Tensor):
        return None if eager == compiled else OutputMeasurement(
            index, path, type(eager).__name__, (), 1, alias_mismatch=f"{compiled!r} instead of {eager!r}"
        )
    kinds = type(compiled).__name__, type(eager).__name__
    return OutputMeasurement(
        index, path, kinds[1], (), 1, alias_mismatch=f"a {kinds[0]} instead of a {kinds[1]}"
    )


def _as_tensors(
    eager: complex, compiled: complex
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Two plain numbers, of which each is the tensor that torch makes of it, two floats in double precision.
    None where one is an integer that no tensor holds."""
    wide = torch.float64 if isinstance(eager, float) and isinstance(compiled, float) else None
    try:
        return torch.tensor(eager, dtype=wide), torch.tensor(compiled, dtype=wide)
    except (OverflowError, RuntimeError, ValueError):  # what torch raises of more than 64 bits differs
        return None


def _is_lost(number: complex) -> bool:
    """Whether a float32 is infinite, or zero, where the number is not."""
    made = torch.tensor(number)
    return bool(made.isinf() and abs(number) != math.inf) or bool(number != 0 and made == 0)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others mean nothing."""
    if tensor.layout is not torch.strided:
        return ()
    return tuple(s if n > 1 else 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True))
