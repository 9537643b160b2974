"""Tensors to numbers: how a compiled output stands against eager's, and both against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..core.model import OutputMeasurement

_INT_OF = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def compare(
    index: int, path: str, eager: Any, compiled: Any, reference: torch.Tensor | None = None
) -> OutputMeasurement | None:
    """Measure one output; None where neither side has a value to compare (both None).

    Values that are not tensors are compared as tensors of one element.
    """
    if eager is None and compiled is None:
        return None
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        return _compare_plain(index, path, eager, compiled)
    shape, dtype = tuple(eager.shape), _dtype_name(eager)
    head: dict[str, Any] = {
        "index": index, "path": path, "dtype": dtype, "shape": shape, "numel": eager.numel()
    }
    if tuple(compiled.shape) != shape:
        return OutputMeasurement(**head, shape_compiled=tuple(compiled.shape))
    if compiled.dtype != eager.dtype:
        return OutputMeasurement(**head, dtype_compiled=_dtype_name(compiled))
    if _strides(compiled) != _strides(eager):
        head["stride_compiled"] = _strides(compiled)
    if eager.numel() == 0:
        return OutputMeasurement(**head)
    e, c = _real(eager), _real(compiled)
    return OutputMeasurement(**head, **_values(e, c), **_errors(e, c, reference))


def _values(e: torch.Tensor, c: torch.Tensor) -> dict[str, Any]:
    """The numbers of two real tensors of equal shape and dtype, flattened."""
    both_nan = e.isnan() & c.isnan()
    bits_differ = ((e != c) | (torch.signbit(e) != torch.signbit(c))) & ~both_nan
    n_diff = int(bits_differ.sum())
    if n_diff == 0:
        return {}
    wide_e, wide_c = e.double(), c.double()
    magnitudes = wide_e.abs()[wide_e.isfinite()]
    mismatch = (wide_e.isfinite() != wide_c.isfinite()) | (
        ~wide_e.isfinite() & ~wide_c.isfinite() & (e != c) & ~both_nan
    )
    finite = bits_differ & wide_e.isfinite() & wide_c.isfinite()
    sizes, diffs = wide_e[finite].abs(), (wide_c[finite] - wide_e[finite]).abs()
    where = mismatch.nonzero()[0] if bool(mismatch.any()) else finite.nonzero()[diffs.argmax()]
    relative = diffs[sizes > 0] / sizes[sizes > 0]
    return {
        "n_diff": n_diff,
        "scale": float(magnitudes.max()) if magnitudes.numel() else 0.0,
        "sign_diff": int((finite & (e == c)).sum()),
        "max_abs": float(diffs.max()) if diffs.numel() else 0.0,
        "max_rel": float(relative.max()) if relative.numel() else (float("inf") if diffs.any() else 0.0),
        "max_ulp": _max_ulp(e[finite], c[finite]),
        "nonfinite_mismatches": int(mismatch.sum()),
        "frontier": frontier(sizes, diffs),
        "worst": (int(where),),
    }


def frontier(sizes: torch.Tensor, diffs: torch.Tensor) -> tuple[tuple[float, float], ...]:
    """The pairs (size, diff) that decide `diff <= atol + rtol*size` for all pairs and every tolerance.

    A pair is dominated by one with a size no larger and a diff no smaller. Of the rest only the upper
    convex hull can be the tightest for some rtol >= 0.
    """
    keep = diffs > 0
    sizes, diffs = sizes[keep], diffs[keep]
    if sizes.numel() == 0:
        return ()
    # One cheap pass first: whatever is below the running maximum of smaller binades is dominated.
    binade = torch.frexp(sizes).exponent.to(torch.int64)
    binade = binade - binade.min()
    best = torch.zeros(int(binade.max()) + 2, dtype=torch.float64)
    best.scatter_reduce_(0, binade + 1, diffs.cpu(), "amax")
    undominated = diffs > best.cummax(0).values[binade]
    sizes, diffs = sizes[undominated], diffs[undominated]
    order = torch.argsort(sizes)
    hull: list[tuple[float, float]] = []
    for size, diff in zip(sizes[order].tolist(), diffs[order].tolist(), strict=True):
        if hull and diff <= hull[-1][1]:
            continue
        while hull and size == hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _below(hull[-2], hull[-1], (size, diff)):
            hull.pop()
        hull.append((size, diff))
    return tuple(hull)


def _below(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or under the line from a to c, so that no rtol makes it the tightest."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def _errors(e: torch.Tensor, c: torch.Tensor, reference: torch.Tensor | None) -> dict[str, Any]:
    if reference is None or reference.numel() == 0:
        return {}
    # Rounded once to the output's dtype: the best that any program can give, so that the last rounding,
    # which both must do, does not hide which of the two was nearer before it.
    r = _real(reference).to(e.dtype).double()
    if r.shape != e.shape:
        return {}
    out: dict[str, Any] = {}
    for name, value in (("eager", e.double()), ("compiled", c.double())):
        both = r.isfinite() & value.isfinite()
        differ = (r.isfinite() != value.isfinite()) | (r.isinf() & value.isinf() & (r != value))
        delta = (value - r)[both]
        out[f"rms_error_{name}"] = float(delta.square().mean().sqrt()) if delta.numel() else 0.0
        out[f"reference_nonfinite_{name}"] = int(differ.sum())
    return out


def _max_ulp(e: torch.Tensor, c: torch.Tensor) -> int | None:
    if e.dtype not in _INT_OF or e.numel() == 0:
        return None
    return int((_ordered(e) - _ordered(c)).abs().max())


def _ordered(x: torch.Tensor) -> torch.Tensor:
    """Floats as integers in the order of the floats, neighbours one apart, both zeros 0."""
    ints = _INT_OF[x.dtype]
    bits = x.contiguous().view(ints).to(torch.int64)
    return torch.where(bits < 0, -(bits - torch.iinfo(ints).min), bits)


def _real(x: torch.Tensor) -> torch.Tensor:
    """Flat, on the CPU, real: a complex tensor becomes its parts; what has no arithmetic is widened."""
    x = x.detach()
    if x.layout is not torch.strided or x.is_quantized:
        x = x.to_dense() if not x.is_quantized else x.dequantize()
    x = x.resolve_conj().resolve_neg().cpu()
    if x.is_complex():
        x = torch.view_as_real(x.to(torch.complex64) if x.dtype is torch.complex32 else x)
    if x.is_floating_point() and x.dtype not in _INT_OF:
        x = x.to(torch.float32)  # float8 types: every value is exact in float32
    if x.dtype is torch.bool:
        x = x.to(torch.uint8)
    return x.reshape(-1)


def _compare_plain(index: int, path: str, eager: Any, compiled: Any) -> OutputMeasurement | None:
    numbers = (bool, int, float, complex)
    if isinstance(eager, numbers) and isinstance(compiled, numbers):
        return compare(index, path, torch.tensor(eager), torch.tensor(compiled))
    if type(eager) is type(compiled) and not isinstance(eager, torch.Tensor):
        return None if eager == compiled else OutputMeasurement(
            index, path, type(eager).__name__, (), 1, alias_mismatch=f"{compiled!r} instead of {eager!r}"
        )
    kinds = type(compiled).__name__, type(eager).__name__
    return OutputMeasurement(
        index, path, kinds[1], (), 1, alias_mismatch=f"a {kinds[0]} instead of a {kinds[1]}"
    )


def measure_all(
    eager: Mapping[str, Any], compiled: Mapping[str, Any], reference: Mapping[str, Any] | None = None
) -> tuple[OutputMeasurement, ...]:
    """Measure the outputs of two runs, by path, in eager's order."""
    measured = []
    for index, (path, value) in enumerate(eager.items()):
        found = compare(index, path, value, compiled.get(path), (reference or {}).get(path))
        if found is not None:
            measured.append(found)
    return tuple(measured)


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others mean nothing."""
    if tensor.layout is not torch.strided:
        return ()
    return tuple(s if n > 1 else 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True))
