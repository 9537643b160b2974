"""The words of each reason of a verdict: a sentence without its full stop, or a part of one where a reason is
told within another. script_reasons.py has long sentences on scripts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch

from bisector.core import reasons as why
from bisector.core import script_reasons as script
from bisector.core import value_reasons as values
from bisector.core.endings import Ending
from bisector.core.leaning import Leaning
from bisector.core.program import EffectKind
from bisector.core.reasons import Reason
from bisector.core.value_reasons import ShownBy

from . import endings, script_reasons
from .words import named

MOST_NAMED = 3  # tensors of one call
EAGER_DIFFERS = "eager differs from eager on the same inputs and the same random state"

# Of reasons that have nothing to tell but themselves.
_FIXED: Mapping[type[Reason], str] = {
    **script_reasons.FIXED,
    why.AllAgree: "every output agrees within tolerance",
    why.DrawsOthers: "compiled uses another random stream than eager; with eager's (fallback_random) every "
    "output agrees",
    why.EagerDraws: "eager draws random numbers and differs from itself; torch.compile draws others. With "
    "`-c fallback_random=True` both draw the same",
    why.BuildsAlone: "the builds alone were asked",
    why.EagerDiffers: EAGER_DIFFERS,
    values.NoReferenceToTell: "diverges; there is no float64 reference to tell which is right",
}


@singledispatch
def words(reason: Reason) -> str:
    """What the report says of it."""
    return _FIXED[type(reason)]


@words.register
def _(reason: why.Told) -> str:
    return reason.text


@words.register
def _(reason: Ending) -> str:
    return endings.words(reason)


@words.register
def _(reason: why.Together) -> str:
    return "; ".join(map(words, reason.parts))


@words.register
def _(reason: why.OfOutput) -> str:
    return f"{reason.path}: {words(reason.why)}"


# -- runs and their shapes ----------------------------------------------------------------------------------


@words.register
def _(reason: why.DrawsBeyond) -> str:
    beyond = f"{reason.elements} elements that compiled draws lie beyond all that eager draws"
    return f"{reason.path}: {beyond}"


@words.register
def _(reason: why.ShapeMoves) -> str:
    return f"one ulp at each node changes that of eager's own output by {reason.elements} elements"


@words.register
def _(reason: why.EagerDiffersAt) -> str:
    return f"{EAGER_DIFFERS}: `{reason.node}` is {reason.what}"


@words.register
def _(reason: why.RunsDiffer) -> str:
    unlike = f"{_unlike(reason)}, and {reason.agreeing} agree with eager"
    return f"the compiled program differs from itself on the same inputs: {unlike}"


@words.register
def _(reason: why.WrongInEveryRun) -> str:
    too = f"its runs differ from each other too ({_unlike(reason)}), and none agrees with eager"
    return f"{words(reason.wrong)}; {too}"


def _unlike(reason: why.RunsDiffer | why.WrongInEveryRun) -> str:
    return f"of {reason.runs} runs {reason.unlike} gave other bits than the first"


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


# -- scripts ------------------------------------------------------------------------------------------------


@words.register
def _(reason: script.DivergesAt) -> str:
    return f"the script diverges at {reason.where}"


@words.register
def _(reason: script.CannotTell) -> str:
    return f"cannot tell: {words(reason.why)}"


@words.register
def _(reason: script.NotKnownSteady) -> str:
    return f"{words(reason.diverges)}; whether that is steady is not known: {words(reason.why)}"


@words.register
def _(reason: script.TwoRunsDiffer) -> str:
    return f"two runs of the script with compilation off differ ({reason.how})"


@words.register
def _(reason: script.NotByUnsteadiness) -> str:
    return f"{words(reason.wrong)}; {words(reason.unsteady)}, which does not explain it"


@words.register
def _(reason: script.SteadyBesides) -> str:
    return f"{words(reason.steady)}; but {words(reason.unsteady)}"


@words.register
def _(reason: script.ScriptDrawsOthers) -> str:
    return (
        "compiled draws from another random stream than eager; where it draws from eager's "
        f"({' and '.join(reason.settings)}) the script agrees"
    )


@words.register
def _(reason: script.CallGivesNothing) -> str:
    return f"the call by itself gives no values ({reason.error})"


@words.register
def _(reason: script.SaysAlike) -> str:
    return f"the script prints `{reason.printed}` with compilation off too"


@words.register
def _(reason: script.PlaceDiffers) -> str:
    return f"{reason.place} differs compiled, and not from run to run"


@words.register
def _(reason: script.LineDiffers) -> str:
    return f"{reason.how}, in both runs"


@words.register
def _(reason: script.LaterCallsUnseen) -> str:
    only = "all calls are compared where the script is run without further options"
    return f"{reason.calls} later calls of the same graphs were not looked at; {only}"


@words.register
def _(reason: script.CutShort) -> str:
    return f"while its calls were recorded the script was {reason.how}"


@words.register
def _(reason: script.ComparisonsFail) -> str:
    several = "comparison fails" if reason.failed == 1 else f"{reason.failed} comparisons fail"
    return f"the script's own {several} with compilation off too"


@words.register
def _(reason: script.EndsAlike) -> str:
    return f"the script ends with compilation off too: {reason.ended}"


@words.register
def _(reason: script.StatusAlike) -> str:
    return f"the script ends with status {reason.status} with compilation off too"


# What a call does, and what to change.
_ADVICE = {
    EffectKind.MUTATES: ("changes {} in place", "give each side a copy of its own"),
    EffectKind.MAKES_LAZY: (
        "makes the parameters of a lazy module, which are drawn then",
        "call it once before anything is compared",
    ),
    EffectKind.CHANGES_STATE: ("changes {}", "give each side a module of its own, or call `eval()`"),
    EffectKind.DRAWS: ("draws random numbers", "seed before each side, or call `eval()`"),
}


@words.register
def _(reason: script.CallLeaves) -> str:
    names = " and ".join(reason.names[:MOST_NAMED])
    more = f" and {len(reason.names) - MOST_NAMED} more" if len(reason.names) > MOST_NAMED else ""
    return f"{named(reason.call)} {_ADVICE[reason.does][0].format(names + more)}"


@words.register
def _(reason: script.PassesPutBack) -> str:
    passes = f"{words(reason.leaves)}: where that is put back before each call it passes"
    return f"{passes}; {_ADVICE[reason.leaves.does][1]}"


@words.register
def _(reason: script.SidesDiffer) -> str:
    tried = ", and ".join(map(words, reason.tried))
    looked_at = f" ({tried}, which does not explain it)" if tried else ""
    return f"what makes its two sides differ was not found{looked_at}"


@words.register
def _(reason: script.RightUnknown) -> str:
    return f"{words(reason.layer)}; which is right is not known: {words(reason.why)}"


@words.register
def _(reason: script.OnEqualInputs) -> str:
    where = "there" if reason.call is None else f"at {named(reason.call)}"
    return f"on equal inputs {where}: {words(reason.found)}"


@words.register
def _(reason: script.UnseenAt) -> str:
    return f"at {named(reason.call)} {words(reason.why)}"


@words.register
def _(reason: script.UnlikeAgain) -> str:
    return f"{named(reason.call)} gives something else in eager when it is run again"


@words.register
def _(reason: script.OneSided) -> str:
    side = "larger" if reason.larger else "smaller"
    one_sided = f"in {reason.calls} calls {reason.path} is {side} than eager's on equal inputs"
    return f"{one_sided}: rounding goes to both sides"


@words.register
def _(reason: script.GivenOtherwise) -> str:
    given = f"{named(reason.call)} is given another {reason.at} than compiled"
    return (
        f"each call up to this one agrees on equal inputs, and {given} where each call before gives what it "
        "gave compiled: the difference does not come through what the calls give, but through what else they "
        "do, such as a side effect that is lost"
    )
