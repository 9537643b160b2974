"""When two outputs agree: tolerances, by output or by dtype."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .model import DivergenceKind, Measurement, Outcome, OutputMeasurement, ProbeResult, Signature

# The defaults of torch.testing.assert_close (torch/testing/_comparison.py, _DTYPE_PRECISIONS);
# what is not here (integers, bool, float8) is compared exactly.
DTYPE_TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Criterion:
    """Compiled agrees where |compiled - eager| <= atol + rtol*|eager|; NaN equals NaN, infinities must match.

    everywhere: tolerances for every output (command line), or None.
    by_path: tolerances for single outputs (the script's own assert_close), by output path.
    by_dtype: tolerances for a smaller graph, whose outputs are other nodes: an output of the dtype that
    diverged is held to the tolerance it diverged under, others to their dtype's default.
    source: where the tolerances come from, in words, for the report.
    """

    everywhere: tuple[float, float] | None = None
    by_path: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_dtype: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    signed_zero: bool = False
    source: str = "defaults of torch.testing.assert_close"

    def tolerance(self, path: str, dtype: str) -> tuple[float, float]:
        """(rtol, atol) for an output of that path and dtype (`float32`, without `torch.`)."""
        if self.everywhere is not None:
            return self.everywhere
        if path in self.by_path:
            return self.by_path[path]
        return self.by_dtype.get(dtype, DTYPE_TOLERANCES.get(dtype, (0.0, 0.0)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Criterion:
        every = raw["everywhere"]
        return cls(
            everywhere=None if every is None else (every[0], every[1]),
            by_path={path: (r, a) for path, (r, a) in raw["by_path"].items()},
            by_dtype={dtype: (r, a) for dtype, (r, a) in raw["by_dtype"].items()},
            signed_zero=raw["signed_zero"],
            source=raw["source"],
        )

    def for_smaller(self, outputs: Iterable[tuple[str, str]]) -> Criterion:
        """The criterion of a reduced graph; `outputs` are (path, dtype) of what diverged in the whole.

        Of two tolerances for one dtype the stricter holds, as it does between two comparisons of one output.
        """
        held: dict[str, tuple[float, float]] = {}
        for path, dtype in outputs:
            tolerance = self.tolerance(path, dtype)
            held[dtype] = min(held.get(dtype, tolerance), tolerance)
        return replace(self, by_path={}, by_dtype=held)


def divergence(output: OutputMeasurement, criterion: Criterion) -> tuple[DivergenceKind, str] | None:
    """In what this output diverges and a sentence that says how much, or None where it agrees."""
    if output.shape_compiled is not None:
        return DivergenceKind.SHAPE, f"shape {output.shape_compiled} instead of {output.shape}"
    if output.dtype_compiled is not None:
        return DivergenceKind.DTYPE, f"dtype {output.dtype_compiled} instead of {output.dtype}"
    if output.alias_mismatch is not None:
        return DivergenceKind.ALIAS, output.alias_mismatch
    if output.nonfinite_mismatches:
        return DivergenceKind.NONFINITE, (
            f"{output.nonfinite_mismatches} of {output.numel} elements are inf or nan on one side only"
        )
    rtol, atol = criterion.tolerance(output.path, output.dtype)
    if any(d > atol + rtol * e for e, d in output.frontier):
        return DivergenceKind.VALUE, (
            f"largest difference {output.max_abs:.6g} (rtol {rtol:g}, atol {atol:g}), "
            f"{output.n_diff} of {output.numel} elements not bit-equal"
        )
    if criterion.signed_zero and output.sign_diff:
        return DivergenceKind.VALUE, f"{output.sign_diff} zeros of {output.numel} have the other sign"
    return None


def family(path: str) -> str:
    """`output`, `grad` or `mutated`: what stays of a path when the graph around it is made smaller."""
    return path.partition("[")[0]


def judge(
    measurement: Measurement, criterion: Criterion, same: Iterable[Signature] | None = None
) -> ProbeResult:
    """PASS where every output agrees, FAIL where one diverges, UNRESOLVED where nothing was measured.

    same: the signatures under study. A divergence that shares none of them (by family and kind, since
    a smaller graph has other outputs) is another bug: UNRESOLVED, so that no search slips on to it.
    """
    if measurement.error is not None:
        return ProbeResult(Outcome.UNRESOLVED, measurement.error, measurement)
    found: list[Signature] = []
    reasons: list[str] = []
    for output in measurement.outputs:
        answer = divergence(output, criterion)
        if answer is not None:
            found.append(Signature(output.path, answer[0]))
            reasons.append(f"{output.path}: {answer[1]}")
    if not found:
        return ProbeResult(Outcome.PASS, "every output agrees", measurement)
    signatures = tuple(found)
    if same is not None:
        studied = {(family(s.path), s.kind) for s in same}
        if not studied & {(family(s.path), s.kind) for s in signatures}:
            reason = f"another signature: {reasons[0]}"
            return ProbeResult(Outcome.UNRESOLVED, reason, measurement, signatures)
    return ProbeResult(Outcome.FAIL, "; ".join(reasons), measurement, signatures)


def proof(result: ProbeResult, denied: Iterable[str]) -> ProbeResult:
    """The result as proof that denying exactly these decisions repairs.

    Where the compile was never asked about one of them, it is the compile that denies the others alone: that
    its outputs agree says nothing about the one, and the outcome is UNRESOLVED.
    """
    gone = sorted(set(result.measurement.vanished) & set(denied))
    if result.outcome is not Outcome.PASS or not gone:
        return result
    others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return replace(result, outcome=Outcome.UNRESOLVED, reason=f"{gone[0]}{others} never came up to be denied")


def size(measurement: Measurement, criterion: Criterion) -> float:
    """How much diverges, as one number for `removed_fraction`: the worst excess over the tolerance.

    Not finite on one side counts as infinite; 0 when everything agrees.
    """
    worst = 0.0
    for output in measurement.outputs:
        answer = divergence(output, criterion)
        if answer is None:
            continue
        if answer[0] is not DivergenceKind.VALUE:
            return float("inf")
        rtol, atol = criterion.tolerance(output.path, output.dtype)
        excess = max((d - atol - rtol * e for e, d in output.frontier), default=0.0)
        worst = max(worst, excess)
    return worst


def worst(output: OutputMeasurement, criterion: Criterion) -> int | None:
    """The flat index of the element that fails the tolerance most; None where nothing differs."""
    if not output.worst:
        return None
    if output.nonfinite_mismatches or len(output.worst) != len(output.frontier):
        return output.worst[0]
    rtol, atol = criterion.tolerance(output.path, output.dtype)
    excess = [d - atol - rtol * e for e, d in output.frontier]
    return output.worst[excess.index(max(excess))]


def grown(before: Measurement, after: Measurement, criterion: Criterion) -> float | None:
    """How many times as large the divergence is: by its size, or by the elements that differ where they may
    not differ at all. None where there is nothing finite to divide by, or nothing was measured after."""
    old, new = size(before, criterion), size(after, criterion)
    if after.error is not None or not 0.0 < old < float("inf"):
        return None
    fewer, more = _unequal(before, criterion), _unequal(after, criterion)
    return max(new / old, more / fewer if fewer else 0.0)


def _unequal(measurement: Measurement, criterion: Criterion) -> int:
    """Elements that differ, of the outputs that are held to equality."""
    held = [o for o in measurement.outputs if not any(criterion.tolerance(o.path, o.dtype))]
    return sum(output.n_diff for output in held)


def removed_fraction(before: Measurement, after: Measurement, criterion: Criterion) -> float:
    """Which part of the divergence is gone: 1 when all outputs agree, 0 when it is as large or larger.

    0 too where `after` has no outputs (a crash removes nothing).
    """
    outcome = judge(after, criterion).outcome
    if outcome is not Outcome.FAIL:
        return 1.0 if outcome is Outcome.PASS else 0.0
    old, new = size(before, criterion), size(after, criterion)
    if new == float("inf") or old == 0.0:
        return 0.0
    # From infinite to finite is progress that no ratio can say; half is a convention, never a repair.
    return 0.5 if old == float("inf") else max(0.0, 1.0 - new / old)


class BudgetSpent(Exception):
    """No further probe may be made. A search that can stops with what it has; reason says which budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def together(trials: Sequence[ProbeResult]) -> ProbeResult:
    """The first of trials that agree; UNRESOLVED, with how often each outcome came, where they do not."""
    counts = Counter(t.outcome for t in trials)
    if len(counts) == 1:
        return trials[0]
    told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    reason = f"{len(trials)} trials disagree: {told}"
    return replace(trials[0], outcome=Outcome.UNRESOLVED, reason=reason, signatures=())
