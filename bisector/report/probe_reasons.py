"""The words of what a measurement shows; reasons.py has those of the other reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import singledispatch

from bisector.core import probe_reasons as probe
from bisector.core.criterion import Criterion
from bisector.core.outcome import Outcome
from bisector.core.probe_reasons import Measured

# Of those that have nothing to tell but themselves.
FIXED: Mapping[type[Measured], str] = {
    probe.OutputsAgree: "every output agrees",
    probe.Baseline: "the baseline",
    probe.SameCode: "the generated code is the default's",
    probe.ProgramDisagrees: "runs of the same program disagree",
    probe.NothingToCompare: "the two runs gave nothing that could be compared",
}


@singledispatch
def words(shown: Measured) -> str:
    """What the report says of it."""
    return FIXED[type(shown)]


@words.register
def _(shown: probe.RaisesOtherwise) -> str:
    if shown.eager is None:
        return f"compiled raises {shown.compiled}; eager returns"
    if shown.compiled is None:
        return f"eager raises {shown.eager}; compiled returns"
    return f"compiled raises {shown.compiled}; eager raises {shown.eager}"


@words.register
def _(shown: probe.OtherShape) -> str:
    return f"shape {shown.compiled} instead of {shown.eager}"


@words.register
def _(shown: probe.OtherDtype) -> str:
    return f"dtype {shown.compiled} instead of {shown.eager}"


@words.register
def _(shown: probe.OtherStrides) -> str:
    return f"strides {shown.compiled} instead of {shown.eager}"


@words.register
def _(shown: probe.FiniteOnOneSide) -> str:
    return f"{shown.elements} of {shown.numel} elements are inf or nan on one side only"


@words.register
def _(shown: probe.BeyondTolerance) -> str:
    rtol, atol = shown.tolerance
    return f"largest difference {shown.max_abs:.6g} (rtol {rtol:g}, atol {atol:g})"


@words.register
def _(shown: probe.BeyondUlp) -> str:
    return f"largest difference {shown.ulp} ulp ({_most_ulp(shown.most)})"


@words.register
def _(shown: probe.BelowCosine) -> str:
    return f"cosine {shown.cosine:.9g} ({_least_cosine(shown.least)})"


def measure(criterion: Criterion) -> str:
    """What is allowed; empty where outputs are held to tolerances."""
    if criterion.max_ulp is not None:
        return _most_ulp(criterion.max_ulp)
    return "" if criterion.cosine is None else _least_cosine(criterion.cosine)


def _most_ulp(bound: int) -> str:
    return f"at most {bound} ulp"


def _least_cosine(bound: float) -> str:
    return f"a cosine of at least {bound!r}"


@words.register
def _(shown: probe.ValuesDiffer) -> str:
    return f"{words(shown.broken)}, {shown.unequal} of {shown.numel} elements not bit-equal"


@words.register
def _(shown: probe.OtherZeros) -> str:
    return f"{shown.zeros} zeros of {shown.numel} have the other sign"


@words.register
def _(shown: probe.BothRaise) -> str:
    return f"both raise {shown.what}"


@words.register
def _(shown: probe.Raises) -> str:
    return f"{'eager' if shown.is_eager else 'compiled'} raises {shown.what}"


@words.register
def _(shown: probe.TrialsDisagree) -> str:
    counts = Counter(shown.outcomes)
    tally = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    return f"{len(shown.outcomes)} trials disagree: {tally}"


@words.register
def _(shown: probe.NotTaken) -> str:
    were = f" and {shown.others} more were" if shown.others else " was"
    return f"{shown.decision}{were} not taken in this compile, so denying it proves nothing"
