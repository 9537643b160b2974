"""The words of each reason: a sentence without its full stop, or a part of one where a reason is told within
another. probe_reasons.py has what a measurement shows, and value_reasons.py what a divergence in values does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from bisector.core import endings as ends
from bisector.core import probe_reasons as probe
from bisector.core import reasons as why
from bisector.core import script_reasons as script
from bisector.core import value_reasons as values
from bisector.core.program import EffectKind
from bisector.core.reasons import Reason
from bisector.report import endings, probe_reasons, value_reasons
from bisector.report.words import named

MOST_NAMED = 3  # tensors of one call
GIVEN = "where each call gives what it gave compiled"
_ROUNDED = "so they do with compilation off where each operation is moved by some steps of its dtype"
EAGER_DIFFERS = "eager differs from eager on the same inputs and the same random state"

# Of reasons that have nothing to tell but themselves.
_FIXED: Mapping[type[Reason], str] = {
    why.AllAgree: "every output agrees within tolerance",
    why.DrawsOthers: "compiled uses another random stream than eager; with eager's (fallback_random) every "
    "output agrees",
    why.EagerDraws: "eager draws random numbers and differs from itself; `-c fallback_random=True` has "
    "torch.compile draw from eager's stream",
    why.BuildsAlone: "the builds alone were asked",
    why.EagerDiffers: EAGER_DIFFERS,
    script.NoSecondRun: "no second run was made",
    script.LineMoves: "all of that line moves from run to run",
    script.CallNotMet: f"{GIVEN} the script does not come to that call",
    script.NoCallSeen: "no call of what it compiles was seen",
    script.RecordedAgree: "the calls that were looked at agree",
    script.FailsInEager: "the script's own comparison fails although every graph ran in eager: the "
    "difference is made before any backend (by Dynamo, or by the script itself)",
    script.AsksCompiling: "the script asks whether it is compiled (`is_compiling`) and does something else "
    "then: told so with compilation off too, it gives the same",
    script.MoreThanRounding: "more than rounding explains",
    script.SuddenlyOff: "no call before it differs in a bit, and eager's own kernels, which round alike, "
    "show it",
    script.RoundsAlike: "it is as small as rounding makes it, and eager's own kernels, which round alike, "
    "show it",
    script.EagerNotBeside: "eager was not run on the inputs that the compiled calls had",
    script.CallNotReached: "with eager run beside it the script did not come to that call",
    script.AgreesBeside: "with eager run beside it the script does not diverge at that call",
    script.RaisesThere: "it raises, and gives nothing to compare",
    script.NotByRounding: "small differences of the values make it, and with compilation off it does not "
    "come of moving each operation of the calls by some steps of its dtype: they are not known to be "
    "rounding",
    script.DynamoShows: "Dynamo's graphs, run op by op, already show it: its tracing or its guards cause "
    "it, or what happens between the calls",
    script.AutogradShows: "it shows without Inductor, with AOTAutograd alone",
    script.LosesTangents: "forward-mode differentiation is lost: a kernel that Inductor makes carries no "
    "tangents, where eager's operations do",
    script.BetweenCalls: "no captured call diverges by itself: it arises between graphs, from call to "
    "call, in the state that a call leaves behind, or from what the tolerance allows",
    script.AddsUp: "at each call up to this one eager, run on the inputs of the compiled call, gives the "
    "same, and with compilation off the script comes to the same inputs where each call gives what it gave "
    "compiled: small differences add up from call to call; "
    f"{_ROUNDED}",
    script.HangsOnTime: "what a call is given hangs on how long earlier calls take: with compilation off "
    "the script comes to the same inputs where each call gives what it gave compiled and takes as long",
    script.OtherwiseLaid: "with compilation off the script comes to the same where each call gives what it "
    "gave compiled and this lies in memory as it lay there: the strides of an output are others than "
    "eager's",
    script.NotFollowed: "it was not followed from call to call",
    script.SaysGrown: "each call agrees on equal inputs, and with compilation off the script says the same "
    "where each call gives what it gave compiled: small differences of the values make that of it; "
    f"{_ROUNDED}",
    script.SaysByTime: "what it says hangs on how long its calls take: with compilation off it says the "
    "same where each call gives what it gave compiled and takes as long",
    script.SaysByNeither: "with compilation off the script does not say so where each call gives what it "
    "gave compiled, laid out so, and takes as long: neither values nor strides nor time make the "
    "difference, but what else the calls do, such as a side effect that is lost",
    script.SaysAtTimes: "all values of its calls are bit-equal, and with compilation off it says the same "
    "at times",
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
def _(reason: ends.Ending) -> str:
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
    return f"{GIVEN} the script {reason.how}"


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


# -- what a fresh process did not show: a part of a sentence ------------------------------------------------


@words.register
def _(reason: ends.NotInSecondProcess) -> str:
    return f"in a second process: {words(reason.why)}"


@words.register
def _(reason: ends.ReprosAgree) -> str:
    agree = "no repro of it that was tried diverges in plain Python"
    if reason.untried is None:
        return agree
    return f"{agree}, and the script itself was not tried as one: {words(reason.untried)}"


@words.register
def _(reason: ends.ScriptStillDiverges) -> str:
    return f"with {reason.fix} the script itself still diverges: {words(reason.why)}"
