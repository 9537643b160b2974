"""When two outputs agree: the one place that knows what an allowed difference is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .dtypes import FLOATS, INTEGERS
from .model import DivergenceKind, OutputMeasurement, Tolerance
from .probe_reasons import (
    BelowCosine,
    BeyondTolerance,
    BeyondUlp,
    Broken,
    FiniteOnOneSide,
    OtherDtype,
    OtherShape,
    OtherZeros,
    RaisesOtherwise,
    ValuesDiffer,
)
from .reasons import Message, Reason

# The defaults of torch.testing.assert_close (torch/testing/_comparison.py, _DTYPE_PRECISIONS);
# what is not here (integers, bool, float8) is compared exactly.
DTYPE_TOLERANCES: dict[str, Tolerance] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
EXACT: Tolerance = (0.0, 0.0)
STATE = "state["  # begins the path of what a call of a script leaves in what it reaches
ANYTHING: Tolerance = (0.0, sys.float_info.max)  # of an output that may hold any values
_IS_BY_VECTOR = f"e.dtype in ({', '.join(f'torch.{dtype}' for dtype in FLOATS)})"

_ULP = """\
if {is_by_vector}:
    # Floats as integers in their order: neighbours are one apart.
    ints = {{2: torch.int16, 4: torch.int32, 8: torch.int64}}[e.element_size()]
    bits = [t.contiguous().view(ints).long() for t in (a, e)]
    steps = [torch.where(b < 0, torch.iinfo(ints).min - b, b) for b in bits]
    far = ((steps[0] - steps[1]).abs() > {bound}) & ~(a.isnan() & e.isnan())
    assert not far.any(), f"{{int(far.sum())}} elements are more than {bound} ulp apart"
else:
    torch.testing.assert_close(a, e, rtol=0, atol=0)
"""
_COSINE = """\
if not a.equal(e) and {is_by_vector}:
    assert torch.equal(a.isfinite(), e.isfinite()), "other elements are finite"
    u, v = (torch.where(t.isfinite(), t, 0).double().flatten() for t in (a, e))
    cosine = torch.nn.functional.cosine_similarity(u, v, dim=0).item()
    assert cosine >= {bound}, f"the cosine of the two is {{cosine}}, less than {bound}"
else:
    torch.testing.assert_close(a, e, rtol=0, atol=0)
"""


@dataclass(frozen=True)
class Criterion:
    """Compiled agrees where |compiled - eager| <= atol + rtol*|eager|; NaN equals NaN, infinities must match.

    everywhere: the tolerance for every output (command line), or None.
    by_path: those of the script's own comparisons, by output path, `*` for outputs without one. What is
    compared several times must agree under each.
    by_dtype: those of a smaller graph, whose outputs are other nodes: an output of the dtype that diverged is
    held to what it diverged under, others to their dtype's default.
    strides: whether outputs that differ in their strides alone diverge.
    source: where it comes from, in words, for the report.
    max_ulp, cosine: given, one of them holds in the place of tolerances, for outputs of `FLOATS`: no
    element is more steps of its dtype away than max_ulp; the cosine of the angle between the output and
    eager's, as vectors in float64, is at least this. Outputs of other dtypes must then be equal.
    """

    everywhere: Tolerance | None = None
    by_path: Mapping[str, tuple[Tolerance, ...]] = field(default_factory=dict)
    by_dtype: Mapping[str, tuple[Tolerance, ...]] = field(default_factory=dict)
    signed_zero: bool = False
    strides: bool = False
    source: str = "defaults of torch.testing.assert_close"
    max_ulp: int | None = None
    cosine: float | None = None

    @property
    def by_tolerances(self) -> bool:
        """Whether outputs are held to tolerances, which torch.testing.assert_close takes."""
        return self.max_ulp is None and self.cosine is None

    def tolerances(self, path: str, dtype: str) -> tuple[Tolerance, ...]:
        """For an output of that path and dtype (`float32`, without `torch.`); never empty. They hold where
        there is no other measure (`by_tolerances`)."""
        if self.everywhere is not None:
            return (self.everywhere,)
        for known in (path, "*"):
            if known in self.by_path:
                return self.by_path[known]
        if path.startswith(STATE) and dtype in INTEGERS:
            return (EXACT,)  # a counter is no result that a comparison of the script's is about
        return self.by_dtype.get(dtype, (DTYPE_TOLERANCES.get(dtype, EXACT),))

    def tolerance(self, path: str, dtype: str) -> Tolerance:
        """The first of them, for what can have but one."""
        return self.tolerances(path, dtype)[0]

    def is_default(self, output: OutputMeasurement) -> bool:
        """Whether the user set no tolerance for this output."""
        chosen = self.everywhere is not None or not self.by_tolerances or output.dtype in self.by_dtype
        return not chosen and output.path not in self.by_path and "*" not in self.by_path

    def without(self, paths: Iterable[str]) -> Criterion:
        """The same, under which the values of these outputs do not count."""
        return replace(self, by_path={**self.by_path, **dict.fromkeys(paths, (ANYTHING,))})

    def excess(self, output: OutputMeasurement) -> float:
        """How far the output is beyond what is allowed, in units of the measure; 0 or less where it is
        not."""
        by_vector = output.dtype in FLOATS
        if by_vector and self.max_ulp is not None:
            return (output.max_ulp or 0) - self.max_ulp
        if by_vector and self.cosine is not None:
            return self.cosine - (1.0 if output.cosine is None else output.cosine)
        return max((_excess(output, one) for one in self._held(output)), default=0.0)

    def divergence(self, output: OutputMeasurement) -> tuple[DivergenceKind, Reason] | None:
        """In what this output diverges and how much, or None where it agrees.

        Strides are not looked at: see `judge`.
        """
        if output.raised is not None:
            otherwise = RaisesOtherwise(output.raised.eager, output.raised.compiled)
            return None if output.raised.alike else (DivergenceKind.RAISES, otherwise)
        if output.shape_compiled is not None:
            return DivergenceKind.SHAPE, OtherShape(output.shape_compiled, output.shape)
        if output.dtype_compiled is not None:
            return DivergenceKind.DTYPE, OtherDtype(output.dtype_compiled, output.dtype)
        if output.alias_mismatch is not None:
            return DivergenceKind.ALIAS, Message(output.alias_mismatch)
        if output.nonfinite_mismatches:
            return DivergenceKind.NONFINITE, FiniteOnOneSide(output.nonfinite_mismatches, output.numel)
        if (broken := self.broken(output)) is not None:
            return DivergenceKind.VALUE, ValuesDiffer(broken, output.n_diff, output.numel)
        if self.signed_zero and output.sign_diff:
            return DivergenceKind.VALUE, OtherZeros(output.sign_diff, output.numel)
        return None

    def broken(self, output: OutputMeasurement) -> Broken | None:
        """What is not as allowed; None where the values agree."""
        if not self.by_tolerances and output.dtype in FLOATS:
            if self.excess(output) <= 0:
                return None
            if self.max_ulp is not None:
                return BeyondUlp(output.max_ulp, self.max_ulp)
            assert output.cosine is not None and self.cosine is not None
            return BelowCosine(output.cosine, self.cosine)
        for rtol, atol in self._held(output):
            if _beyond(output, (rtol, atol)):
                return BeyondTolerance(output.max_abs, (rtol, atol))
        return None

    def worst_pair(self, output: OutputMeasurement) -> int:
        """The place, on the frontier, of the element that breaks it most."""
        held = self._held(output)
        excess = [max(d - atol - rtol * e for rtol, atol in held) for e, d in output.frontier]
        return excess.index(max(excess))

    def is_exact(self, output: OutputMeasurement) -> bool:
        """Whether the output must be equal."""
        if not self.by_tolerances:
            return output.dtype not in FLOATS
        return EXACT in self._held(output)

    def _held(self, output: OutputMeasurement) -> tuple[Tolerance, ...]:
        return self.tolerances(output.path, output.dtype) if self.by_tolerances else (EXACT,)

    def failing_tolerance_first(self, outputs: Iterable[OutputMeasurement]) -> Criterion:
        """The same criterion, with a tolerance in front under which the output diverges, if there is one."""
        order = dict(self.by_path)
        for output in outputs:
            held = self.tolerances(output.path, output.dtype)
            if len(held) > 1:
                order[output.path] = tuple(sorted(held, key=lambda one: not _beyond(output, one)))
        return replace(self, by_path=order)

    def for_reduced_graph(self, outputs: Iterable[tuple[str, str]]) -> Criterion:
        """The criterion of a reduced graph; `outputs` are (path, dtype) of what diverged in the whole."""
        held: dict[str, tuple[Tolerance, ...]] = {}
        for path, dtype in outputs:
            both = (*held.get(dtype, ()), *self.tolerances(path, dtype))
            held[dtype] = tuple(dict.fromkeys(both))
        return replace(self, by_path={}, by_dtype=held)

    def assertion(self) -> str:
        """Lines of Python that raise AssertionError where the tensors `a` and `e` do not agree; empty where
        they are held to tolerances."""
        if self.max_ulp is not None:
            return _ULP.format(bound=self.max_ulp, is_by_vector=_IS_BY_VECTOR)
        if self.cosine is not None:
            return _COSINE.format(bound=self.cosine, is_by_vector=_IS_BY_VECTOR)
        return ""


def _excess(output: OutputMeasurement, tolerance: Tolerance) -> float:
    """How far the worst element is beyond the tolerance; 0 or less where none is."""
    rtol, atol = tolerance
    return max((d - atol - rtol * e for e, d in output.frontier), default=0.0)


def _beyond(output: OutputMeasurement, tolerance: Tolerance) -> bool:
    rtol, atol = tolerance
    return any(d > atol + rtol * e for e, d in output.frontier)
