"""The words of reasons on a script that have nothing to tell but themselves; reasons.py has the others."""

from __future__ import annotations

from collections.abc import Mapping

from bisector.core import script_reasons as script
from bisector.core.reasons import Reason

GIVEN = "where each call gives what it gave compiled"
_ROUNDED = "so they do with compilation off where each operation is moved by some steps of its dtype"

FIXED: Mapping[type[Reason], str] = {
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
