"""The words of each reason: a sentence without its full stop, or a part of one where a reason is told within
another. script_reasons.py has long sentences on scripts, probe_reasons.py what a measurement shows, and
value_reasons.py what a divergence in values does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from bisector.core import probe_reasons as probe
from bisector.core import reasons as why
from bisector.core import script_reasons as script
from bisector.core import value_reasons as values
from bisector.core.endings import Ending
from bisector.core.program import EffectKind
from bisector.core.reasons import Reason

from . import endings, probe_reasons, script_reasons, value_reasons
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
}


@singledispatch
def words(reason: Reason) -> str:
    """What the report says of it."""
    return _FIXED[type(reason)]


@words.register
def _(reason: why.Message) -> str:
    return reason.text


@words.register
def _(reason: probe.Measured) -> str:
    return probe_reasons.words(reason)


@words.register
def _(reason: values.OfValues) -> str:
    return value_reasons.words(reason)


@words.register
def _(reason: probe.AnotherSignature) -> str:
    return f"another signature: {words(reason.first)}"


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


# -- scripts ------------------------------------------------------------------------------------------------


@words.register
def _(reason: script.AtCall) -> str:
    return f"call {reason.call.number} of {reason.of} (`{reason.call.entry}`): {words(reason.why)}"


@words.register
def _(reason: script.AndMore) -> str:
    return f"{words(reason.first)} (and {reason.more} more output{'s' if reason.more > 1 else ''})"


@words.register
def _(reason: script.ComparisonFails) -> str:
    return f"its comparison {reason.number} of {reason.of}, which fails compiled alone"


@words.register
def _(reason: script.OtherEnd) -> str:
    return f"its end: {reason.compiled}; with compilation off {reason.eager}"


@words.register
def _(reason: script.AmongLines) -> str:
    return f"{words(reason.line)}, among lines that come and go"


@words.register
def _(reason: script.NotSeenAgain) -> str:
    return f"what it prints differs; run again, to see whether that moves, the script {reason.how}"


@words.register
def _(reason: script.MadeByValuesUnknown) -> str:
    return f"whether the values of its calls make that is not known: {words(reason.why)}"


@words.register
def _(reason: script.DivergesAt) -> str:
    return f"the script diverges at {words(reason.where)}"


@words.register
def _(reason: script.CannotTell) -> str:
    return f"cannot tell: {words(reason.why)}"


@words.register
def _(reason: script.NotKnownSteady) -> str:
    return f"{words(reason.diverges)}; whether that is steady is not known: {words(reason.why)}"


@words.register
def _(reason: script.TwoRunsDiffer) -> str:
    return f"two runs of the script with compilation off differ ({words(reason.how)})"


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
    return f"{words(reason.how)}, in both runs"


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
def _(reason: script.EndNotMet) -> str:
    return f"{script_reasons.GIVEN} the script {reason.how}"


@words.register
def _(reason: script.CannotStand) -> str:
    return f"what call {reason.call} gave compiled cannot stand in the place of eager's"


@words.register
def _(reason: script.GivenOtherwise) -> str:
    given = f"{named(reason.call)} is given another {reason.at} than compiled"
    return (
        f"each call up to this one agrees on equal inputs, and {given} where each call before gives what it "
        "gave compiled: the difference does not come through what the calls give, but through what else they "
        "do, such as a side effect that is lost"
    )
