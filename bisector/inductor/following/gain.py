"""What one operation makes of the difference of its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from .. import measure
from .local_error import Pair, difference, eps, largest

WATCHED = 256  # elements, those that differ most, between whose two inputs the steepest place is looked for
HALVINGS = 24  # as far as float32 has values in between
Operation = Callable[[torch.Tensor], torch.Tensor]  # on any elements of the one input, in one dimension


def gain(result: Pair, inputs: Sequence[Pair], elementwise: bool, operation: Operation | None) -> float:
    """Relative difference of the results over the largest of the inputs; each pair is (compiled, eager).

    A difference counts relative to the largest element, and one of the inputs as at least a rounding of that
    element: adding a small number to a large one rounds it, which is no growth. elementwise: each element of
    the result is held against its own inputs. operation: where there is but one input, so that a step (a
    ceil, a comparison) that lies between the two runs' values counts as steep as it is.
    """
    least = max(eps(result[1]), *(eps(eager) for _, eager in inputs))
    whole = difference(result) / max(least, *(difference(p) for p in inputs))
    after = _each(result) if elementwise and math.isfinite(whole) else None
    before = [_each(p) for p in inputs]
    if after is None or any(b is None or b.shape != after.shape for b in before):
        return whole
    floor = torch.full_like(after, least)
    for value in before:
        floor = torch.maximum(floor, value) if value is not None else floor
    moved = after > 0
    grown = float((after[moved] / floor[moved]).max()) if bool(moved.any()) else 0.0
    if operation is None or len(inputs) != 1 or not moved.any():
        return grown
    try:
        return max(grown, _steepest(operation, inputs[0], result, after, least))
    except RuntimeError:  # an operation that takes nothing but the shape it was given
        return grown


def _steepest(operation: Operation, given: Pair, result: Pair, after: torch.Tensor, least: float) -> float:
    """The largest gain between neighbouring values on the way from eager's inputs to the compiled run's."""
    at = after.reshape(-1).topk(min(WATCHED, after.numel())).indices
    units = largest(*given)[1], largest(*result)[1]
    high, low = (value.detach().reshape(-1)[at] for value in given)
    above, below = (value.detach().reshape(-1)[at].double() for value in result)
    best = 0.0
    for _ in range(HALVINGS):
        apart = ((high.double() - low.double()).abs() / units[0]).clamp(min=least)
        # What rounding alone makes is no rise.
        risen = ((above - below).abs() / units[1] - least).clamp(min=0)
        best = max(best, float((risen / apart).nan_to_num(0.0).max()))
        middle = low + (high - low) / 2
        between = operation(middle).double()
        lower = (between - below).abs() >= (above - between).abs()
        low, below = torch.where(lower, low, middle), torch.where(lower, below, between)
        high, above = torch.where(lower, middle, high), torch.where(lower, between, above)
    return best


def _each(pair: Pair) -> torch.Tensor | None:
    """Differences element by element, relative to the largest element; None where that cannot be said."""
    a, b = pair
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if not tensors or a.shape != b.shape or a.is_complex() or not a.numel():
        return None
    apart, scale = largest(a, b)
    if not scale or not math.isfinite(apart):
        return None
    differences = (measure.parts(a).double() - measure.parts(b).double()).abs()
    return (differences.nan_to_num(0.0, 0.0, 0.0) / scale).reshape(b.shape)
