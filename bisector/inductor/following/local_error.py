"""How far two results of one operation on equal inputs differ, whether rounding explains it, and what the
operation makes of the difference of its inputs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import measure
from ..equality import parts, same
from ..rounding import FLOAT_DTYPES, coarsest_of, eps_of

# Steps of the dtype by which a basic operation (a sum, a product, a cast) may be off: it is right to the last
# one, or to the last but one where it is made of two.
FEW = 4.0
# The same, at the scale of the whole result, for a function that is approximated (an erf by polynomials is
# off by some ten) and for a sum of many terms, taken in another order.
FEW_AT_SCALE = 64.0
# Two factors, each rounded to half a step, make one step of the product, and both programs may be off by it.
OF_FACTORS = 2.0
Reference = Callable[[], Any]  # the same operation on the same inputs in float64, or None
Pair = tuple[Any, Any]  # the compiled run's value and eager's: tensors, or tuples of tensors
# Several inputs can be left unrounded at once, over several operations.
AS_FAR = 8.0
WATCHED = 256  # elements, those that differ most, between whose two inputs the steepest place is looked for
HALVINGS = 24  # as far as float32 has values in between
Operation = Callable[[torch.Tensor], torch.Tensor]  # on any elements of the one input, in one dimension


@dataclass(frozen=True)
class Local:
    """Fields as in `core.trace.NodeTrace`."""

    arises: bool = False
    ulp: float = 0.0
    relative: float = 0.0
    beyond: bool = False
    wrong: bool = False
    eager_ulp: float | None = None


@dataclass(frozen=True)
class OtherWays:
    """The same operation on the same inputs in other ways, each asked only where that is needed.

    reference: in float64. unrounded: in float64 on inputs before they were rounded, in several combinations;
    None where what some input was before is not known.
    magnitudes: of a sum, that of its terms' magnitudes. by_itself: compiled alone, so that its inputs are
    rounded. Each None, or without elements, where there is none. factors: machine epsilon of the format to
    which a product may round its factors, 0 where it keeps them.
    """

    reference: Callable[[], Any]
    unrounded: Callable[[], Sequence[Any] | None] = tuple
    magnitudes: Callable[[], Any] = lambda: None
    by_itself: Callable[[], Any] = lambda: None
    factors: float = 0.0


def worst(found: Sequence[Local]) -> Local:
    """The one of several values of a node that says most about it."""
    return max(found, key=lambda one: (one.wrong, one.beyond, one.arises, one.ulp), default=Local())


class Scale(enum.Enum):
    """What an error is held to: the size of which value, and by how many steps of the dtype it may be off."""

    LAST_BIT = enum.auto()  # its own: IEEE 754 says what each element of a basic operation must be
    OWN = enum.auto()  # its own: each element is made of other inputs, as the variances of rows are
    WHOLE = enum.auto()  # the largest of the result: of a function that is approximated, or that cancels

    @property
    def few(self) -> float:
        return FEW if self is Scale.LAST_BIT else FEW_AT_SCALE


def scale_of(basic: bool, expected: Any, inputs: Sequence[Any]) -> Scale:
    """basic: of the operation. inputs: all that it reads; where the result has fewer elements than they have,
    each element has terms of its own."""
    if basic:
        return Scale.LAST_BIT
    counts = [v.numel() for one in inputs for v in pytree.tree_leaves(one) if isinstance(v, torch.Tensor)]
    reduces = isinstance(expected, torch.Tensor) and expected.numel() < max(counts, default=0)
    return Scale.OWN if reduces else Scale.WHOLE


def local(actual: torch.Tensor, expected: torch.Tensor, scale: Scale, asked: OtherWays) -> Local:
    """The error of `actual`, where eager makes `expected` of the same inputs. A difference too large
    for rounding in itself has two explanations: an operation can round many times and cancel, and then eager
    is as far from float64; or what the compiled run read may not have been rounded (a contracted product, a
    cast that is left out), though it was when it was handed out.
    """
    # Each is a run in double precision, and is asked for more than once.
    asked = replace(asked, reference=cache(asked.reference), magnitudes=cache(asked.magnitudes))
    found = _local(actual, expected, scale, asked.reference)
    if scale is Scale.OWN and found.ulp > scale.few and _is_off_its_terms(actual, expected, asked):
        found = replace(found, beyond=True)
    if not found.beyond or (found.eager_ulp is None and expected.dtype in FLOAT_DTYPES):
        return found
    magnitudes = asked.magnitudes()
    if asked.factors and _is_within(OF_FACTORS * asked.factors, actual, expected, magnitudes):
        return replace(found, beyond=False)
    steps = _step(expected)
    if _is_within(FEW_AT_SCALE * steps, actual, expected, magnitudes):
        return replace(found, beyond=not _is_within(FEW * steps, actual, expected, magnitudes))
    unrounded = asked.unrounded()
    if unrounded is not None and not _moved_as_far(actual, expected, unrounded):
        return replace(found, wrong=True)
    # That may be so, or the operation itself is compiled otherwise.
    alone = asked.by_itself()
    still = isinstance(alone, torch.Tensor) and _local(alone, expected, scale, asked.reference).beyond
    return replace(found, wrong=still)


def _step(value: torch.Tensor) -> float:
    """Machine epsilon of its dtype; 0 of what has no arithmetic."""
    return eps_of(value.dtype) if value.dtype in FLOAT_DTYPES else 0.0


def _is_off_its_terms(actual: torch.Tensor, expected: torch.Tensor, asked: OtherWays) -> bool:
    """Whether a sum is off by more than its terms are rounded by, and eager's is not. Where it cancels, its
    own steps say nothing: a sign that chance decides is a billion of them."""
    magnitudes, steps = asked.magnitudes(), FEW_AT_SCALE * _step(expected)
    if not isinstance(magnitudes, torch.Tensor) or _is_within(steps, actual, expected, magnitudes):
        return False
    exact = asked.reference()
    known = isinstance(exact, torch.Tensor) and exact.shape == expected.shape
    return known and _is_within(steps, expected, exact, magnitudes)


def _is_within(steps: float, actual: torch.Tensor, expected: torch.Tensor, magnitudes: Any) -> bool:
    """Whether the two differ by no more than so much of the magnitudes of the terms."""
    if not isinstance(magnitudes, torch.Tensor) or magnitudes.shape != expected.shape:
        return False
    distance = (actual.double() - expected.double()).abs()
    return bool((distance <= steps * magnitudes.double()).all())


def _moved_as_far(actual: torch.Tensor, expected: torch.Tensor, others: Sequence[Any]) -> bool:
    """Whether the operation on inputs that were rounded later, or never, is about as far from eager's.

    Values are held to the largest move, what has no rounding to the number of elements that moved.
    """
    most, moved = 0.0, 0
    for other in others:
        if not isinstance(other, torch.Tensor) or other.shape != expected.shape:
            continue
        distance, _ = largest(other, expected)
        most = max(most, distance)
        moved = max(moved, int((parts(other.to(expected.dtype)) != parts(expected)).sum()))
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if expected.dtype in FLOAT_DTYPES or expected.is_complex():
        return largest(actual, expected)[0] <= AS_FAR * most
    return int((parts(actual) != parts(expected)).sum()) <= AS_FAR * moved


def _local(actual: torch.Tensor, expected: torch.Tensor, scale: Scale, reference: Reference) -> Local:
    if same(actual, expected):
        return Local()
    relative = difference((actual, expected))
    same_shape_and_dtype = actual.shape == expected.shape and actual.dtype == expected.dtype
    if not same_shape_and_dtype:
        return Local(True, math.inf, relative, True, eager_ulp=0.0)
    if not math.isfinite(largest(actual, expected)[0]):
        exact = reference()
        known = isinstance(exact, torch.Tensor) and exact.shape == expected.shape
        right = known and math.isfinite(largest(expected, exact.to(expected.dtype))[0])
        return Local(True, math.inf, relative, True, eager_ulp=0.0 if right else None)
    if expected.dtype not in FLOAT_DTYPES:
        # Integers and codes are exact. A complex number is held to its modulus, not to a step of its own.
        step = eps_of(expected.dtype)
        rounds = step > 0
        ulp = relative / step if rounds else largest(actual, expected)[0]
        return Local(True, ulp, relative, not rounds or ulp > FEW_AT_SCALE)
    ulp, few = _steps(actual, expected, scale), scale.few
    if 0 < ulp <= few:
        return Local(True, ulp, relative, False)
    exact = reference()
    if not isinstance(exact, torch.Tensor) or exact.shape != expected.shape:
        return Local(True, ulp, relative, ulp > few)
    if expected.dtype is torch.float64 and scale is not Scale.LAST_BIT:
        return Local(True, ulp, relative, ulp > few)  # eager cannot be its own reference
    exact = exact.to(expected.dtype)
    if ulp == 0:  # zeros of another sign
        return Local(True, ulp, relative, same(expected, exact), eager_ulp=0.0)
    theirs, ours = _steps(actual, exact, scale), _steps(expected, exact, scale)
    return Local(True, ulp, relative, theirs > few * max(ours, 1.0), eager_ulp=ours)


def difference(pair: Pair) -> float:
    """Largest difference over the largest magnitude in eager, the largest of all parts of a tuple; infinite
    where only one side is finite, or the shapes differ."""
    ours, theirs = map(pytree.tree_leaves, pair)
    if len(ours) != len(theirs):
        return math.inf
    return max(map(_difference, ours, theirs), default=0.0)


def _difference(a: Any, b: Any) -> float:
    if same(a, b):
        return 0.0
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return math.inf
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    distance, scale = largest(a, b)
    return distance / scale if scale else (math.inf if distance else 0.0)


def largest(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """Largest absolute difference, infinite where only one of two elements is finite; b's largest element."""
    x, y = parts(a).double(), parts(b).double()
    if not x.numel():
        return 0.0, 0.0
    distance = float((x - y).abs().max())
    if math.isfinite(distance):  # then so is every element
        return distance, float(y.abs().max())
    finite = x.isfinite() & y.isfinite()
    if bool((~finite & (x != y) & ~(x.isnan() & y.isnan())).any()):
        return math.inf, 1.0
    x, y = x[finite], y[finite]
    return (float((x - y).abs().max()), float(y.abs().max())) if x.numel() else (0.0, 0.0)


def _steps(a: torch.Tensor, b: torch.Tensor, held_to: Scale) -> float:
    """Steps of the dtype between them: at the worst element, or at the scale of the largest one."""
    distance, scale = largest(a, b)
    if distance == 0.0 or not math.isfinite(distance):
        return distance
    if held_to is not Scale.WHOLE or not scale:
        x, y = parts(a), parts(b)
        finite = x.isfinite() & y.isfinite()
        return float(measure.max_ulp(y[finite], x[finite]) or 0)
    info = torch.finfo(b.dtype)
    return distance / (max(2.0 ** math.floor(math.log2(scale)), info.smallest_normal) * info.eps)


def gain(result: Pair, inputs: Sequence[Pair], elementwise: bool, operation: Operation | None) -> float:
    """Relative difference of the results over the largest of the inputs; each pair is (compiled, eager).

    A difference counts relative to the largest element, and one of the inputs as at least a rounding of that
    element: adding a small number to a large one rounds it, which is no growth. elementwise: each element of
    the result is held against its own inputs. operation: where there is but one input, so that a step (a
    ceil, a comparison) that lies between the two runs' values counts as steep as it is.
    """
    least = coarsest_of((result[1], *(eager for _, eager in inputs)))
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
        distance = ((high.double() - low.double()).abs() / units[0]).clamp(min=least)
        # What rounding alone makes is no rise.
        risen = ((above - below).abs() / units[1] - least).clamp(min=0)
        best = max(best, float((risen / distance).nan_to_num(0.0).max()))
        middle = low + (high - low) / 2
        between = operation(middle).double()
        lower = (between - below).abs() >= (above - between).abs()
        low, below = torch.where(lower, low, middle), torch.where(lower, below, between)
        high, above = torch.where(lower, middle, high), torch.where(lower, between, above)
    return best


def _each(pair: Pair) -> torch.Tensor | None:
    """Differences element by element, relative to the largest element; None where that is not known."""
    a, b = pair
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if not tensors or a.shape != b.shape or a.is_complex() or not a.numel():
        return None
    distance, scale = largest(a, b)
    if not scale or not math.isfinite(distance):
        return None
    differences = (parts(a).double() - parts(b).double()).abs()
    return (differences.nan_to_num(0.0, 0.0, 0.0) / scale).reshape(b.shape)
