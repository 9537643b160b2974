"""The words of what a divergence in values shows; reasons.py has those of the other reasons."""

from __future__ import annotations

import math
from functools import singledispatch

from bisector.core import value_reasons as values
from bisector.core.leaning import Leaning
from bisector.core.value_reasons import OfValues, ShownBy


@singledispatch
def words(reason: OfValues) -> str:
    """What the report says of it."""
    raise NotImplementedError(type(reason))


# -- nodes --------------------------------------------------------------------------------------------------


@words.register
def _(reason: values.FromUndefined) -> str:
    depends = f"all elements that differ depend on `{reason.node}`"
    return f"{depends}, which is {reason.what}: torch leaves that undefined"


@words.register
def _(reason: values.UndefinedNode) -> str:
    return f"`{reason.node}` ({reason.op}) is {reason.what}, which torch leaves undefined"


@words.register
def _(reason: values.NodeDiffers) -> str:
    far = f"by {reason.ulp:.3g} ulp" if math.isfinite(reason.ulp) else "by more than any rounding"
    own = reason.eager_ulp
    rounding = "" if own is None else f", of which eager's own rounding is {own:.3g}"
    return f"on equal inputs `{reason.node}` ({reason.op}) differs from eager {far}{rounding}"


# -- casts --------------------------------------------------------------------------------------------------

_NARROWED = "a cast to a narrower dtype, which the program wrote, is not executed"
_SHOWN_BY = {
    ShownBy.EXECUTED: "where it is, this output agrees",
    ShownBy.LEFT_OUT: "this output is that of eager without it",
    ShownBy.ROUNDING_LEFT: "where it is, no more is left than rounding at each node makes",
}


@words.register
def _(reason: values.CastLeftOut) -> str:
    return f"{_NARROWED}; {_SHOWN_BY[reason.by]}"


@words.register
def _(reason: values.OtherwiseWithoutCasts) -> str:
    return (
        f"{_NARROWED}; where it is, this output agrees, but eager without it differs from compiled too: "
        f"whether the cast is all of it is not known"
    )


@words.register
def _(reason: values.ErrorsByCasts) -> str:
    casts, without = _errors(reason.with_casts), _errors(reason.without_any)
    errors = f"(rms error with the casts {casts}; without any {without})"
    return f"{reason.path}: {words(reason.how)} {errors}"


@words.register
def _(reason: values.CastExplainsPart) -> str:
    left = "" if reason.left is None else f", by up to {reason.left:.3g}"
    return (
        f"{_NARROWED}; where it is, this output still differs{left}, which one ulp at each node may make: "
        "whether rounding is all of it is not known"
    )


# -- outputs without rounding -------------------------------------------------------------------------------


@words.register
def _(reason: values.ElementsDiffer) -> str:
    return f"{reason.path}: {reason.n_diff} of {reason.numel} elements differ"


@words.register
def _(reason: values.NoRoundingExplains) -> str:
    all_of_them = reason.unmoved in (None, reason.differ.n_diff)
    which = "them" if all_of_them else f"{reason.unmoved} of them"
    return f"{words(reason.differ)}; {reason.dtype} has no rounding, and none before it explains {which}"


@words.register
def _(reason: values.RoundingFallsShort) -> str:
    return (
        f"{words(reason.differ)}; {reason.dtype} has no rounding, and the rounding before it, which moves "
        f"this output in eager too, does not come as far at {reason.unexplained} of them"
    )


# -- accuracy -----------------------------------------------------------------------------------------------


@words.register
def _(reason: values.NearerTo) -> str:
    return f"{_nearer(reason.path, reason.how)} (rms error {_errors(reason.errors)})"


@words.register
def _(reason: values.NearerOnOthers) -> str:
    over = f"over {reason.inputs} other inputs (rms error {_errors(reason.errors)})"
    nearer = _nearer(reason.path, reason.how)
    return f"{nearer} {over}; which of the two is nearer on these is chance"


@words.register
def _(reason: values.NotFinite) -> str:
    nearer = _nearer(reason.path, reason.how)
    return f"{nearer}: {reason.compiled} elements are not finite where it is (eager: {reason.eager})"


@words.register
def _(reason: values.NearerUnclear) -> str:
    doubt = "too few to tell" if reason.few else "and it is not clear"
    return (
        f"{reason.path}: {reason.n_diff} elements differ, {doubt} which run is nearer to the float64 "
        f"reference (rms error {_errors(reason.errors)})"
    )


_HOW = {
    Leaning.WORSE: "farther from",
    Leaning.BETTER: "closer to",
    Leaning.ALIKE: "about as far as eager from",
    Leaning.ROUNDS: "no farther than rounding explains from",
    Leaning.INCONCLUSIVE: "not known to be farther from or closer to",
}


def _nearer(path: str, how: Leaning) -> str:
    return f"{path}: compiled is {_HOW[how]} the float64 reference"


def _errors(errors: values.Errors) -> str:
    return f"{errors.compiled:.3g}, eager {errors.eager:.3g}"


# -- rounding -----------------------------------------------------------------------------------------------


@words.register
def _(reason: values.BeyondNudges) -> str:
    moved = f"where one ulp at each operation moves eager by {reason.moved:.3g}"
    return f"{reason.path}: off by up to {reason.max_abs:.3g}, {moved}: more than rounding explains"


@words.register
def _(reason: values.AtAStep) -> str:
    return f"{reason.path} comes from rounded values that lie at a step"


@words.register
def _(reason: values.RoundingGrows) -> str:
    alone = f"at each node by itself the two runs differ by rounding alone (at most {reason.ulp:.3g} ulp)"
    most = reason.most
    if most is None:
        return f"{alone}, which grows from node to node"
    how = f"{most.gain:.3g} times" if math.isfinite(most.gain) else "without bound"
    return f"{alone}; it grows most at `{most.node}` ({most.op}), {how}"


@words.register
def _(reason: values.EagerMoves) -> str:
    elements = f"{reason.n_diff} of {reason.numel} elements, up to {reason.max_abs:.3g}"
    return f"one ulp at each node moves {reason.path} of eager itself beyond tolerance ({elements})"


@words.register
def _(_: values.NoReferenceToTell) -> str:
    return "diverges; there is no float64 reference to tell which is right"
