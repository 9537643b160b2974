"""What a script is said to show: the class of its divergence, from its own runs.

The class of differing values is judged on equal inputs alone: at the first call where eager, run on the very
inputs that the compiled call had, gives something else. Where there is none up to the call that diverges,
rounding within the tolerance has grown from call to call.
"""

from __future__ import annotations

from dataclasses import dataclass

from .accuracy import is_far
from .backends import INDUCTOR
from .classify import PLAINLY_WRONG, classify
from .criterion import Criterion
from .evidence import FALLBACK_RANDOM
from .judge import family, judge
from .model import Outcome
from .program import CompiledCall, PlainRun, ScriptResult, shown
from .verdict import Rule, Verdict, VerdictClass

UNSTEADY = "two runs of the script with compilation off differ"
# The settings with which compiled draws from the streams that eager draws from.
DRAWS_ALIKE = (FALLBACK_RANDOM, "dynamo.use_numpy_random_stream")
DRAWS_OTHERS = (
    "compiled draws from another random stream than eager; where it draws from eager's "
    f"({' and '.join(DRAWS_ALIKE)}) the script agrees"
)
GROWS = (
    "at each call up to this one eager, run on the inputs of the compiled call, gives the same: small "
    "differences add up from call to call"
)
# Rungs that compute with eager's own kernels, one operation at a time.
BY_EAGERS_KERNELS = ("eager", "aot_eager")
LAYERS = {
    "eager": "Dynamo's graphs, run op by op, already show it: its tracing or its guards cause it, or what "
    "happens between the calls",
    "aot_eager": "it shows without Inductor, with AOTAutograd alone",
}
NO_TANGENTS = (
    "forward-mode differentiation is lost: a kernel that Inductor makes carries no tangents, where eager's "
    "operations do"
)
BETWEEN = (
    "no single captured call reproduces it: it arises between graphs, from call to call, or in the state "
    "that a call leaves behind"
)


@dataclass(frozen=True)
class EqualInputs:
    """The first call of the script that differs from eager on equal inputs.

    place: that call, with its evidence; None where there is none up to the call that diverges, or it is not
    known. unknown: why it is not, empty where it is.
    """

    place: CompiledCall | None = None
    unknown: str = ""


NOT_ASKED = EqualInputs(unknown="eager was not run on the inputs that the compiled calls had")


def first_unequal(
    control: PlainRun, compiled: PlainRun, diverging: ScriptResult, criterion: Criterion
) -> EqualInputs:
    """control, compiled: the script with compilation off and as it is, each call beside eager on the same
    inputs. diverging: what the script shows without that, at one of its calls."""
    assert diverging.call is not None
    calls = compiled.calls[: diverging.call + 1]
    if len(calls) <= diverging.call:
        return EqualInputs(unknown="with eager run beside it the script did not come to that call")
    for call in calls:
        name = f"call {call.index + 1} (`{call.entry}`)"
        if call.beside is None:
            return EqualInputs(unknown=f"at {name} {call.beside_unseen}")
        if call.beside.default.error is not None:
            return EqualInputs(unknown=f"at {name} {call.beside.default.error}")
        again = control.calls[call.index].beside if call.index < len(control.calls) else None
        if again is None or judge(again.default, criterion).outcome is not Outcome.PASS:
            return EqualInputs(unknown=f"{name} gives something else in eager when it is run again")
        if judge(call.beside.default, criterion).outcome is not Outcome.PASS:
            return EqualInputs(call)
        if call.beside_unseen:
            return EqualInputs(unknown=f"at {name} {call.beside_unseen}")
    found = shown(PlainRun(control.calls[: len(calls)], status=0), PlainRun(calls, status=0), criterion)
    if found.call != diverging.call:
        return EqualInputs(unknown="with eager run beside it the script does not diverge at that call")
    return EqualInputs()


@dataclass(frozen=True)
class ScriptRuns:
    """What the runs of a script show.

    shown: compiled beside compilation off. again: a second run with compilation off beside the first.
    first_bad: the first rung that shows it, None where that is not known. exact: all values of all calls were
    seen, and are bit-equal. equal: what eager gives on the inputs of the compiled calls. alike: what the
    script shows where both draw from the same random streams; None where no call draws.
    """

    shown: ScriptResult
    again: ScriptResult
    first_bad: str | None
    exact: bool
    equal: EqualInputs = NOT_ASKED
    alike: ScriptResult | None = None

    @property
    def outcome(self) -> Outcome:
        """UNRESOLVED where a divergence is not known to be steady."""
        steady = self.again.outcome is Outcome.PASS
        return Outcome.UNRESOLVED if self.shown.diverges and not steady else self.shown.outcome


def script_verdict(runs: ScriptRuns, criterion: Criterion) -> Verdict:
    """The verdict where the script diverges or it is not known whether it does."""
    if runs.again.outcome is Outcome.FAIL:
        reason = f"{UNSTEADY} ({runs.again.reason})"
        return Verdict(VerdictClass.NONDETERMINISTIC, reason, rule=Rule.SCRIPT)
    if runs.shown.outcome is Outcome.UNRESOLVED:
        return cannot_tell(runs.shown.reason)
    at = f"the script diverges at {runs.shown.reason}"
    if runs.again.outcome is Outcome.UNRESOLVED:
        return cannot_tell(f"{at}; whether that is steady is not known: {runs.again.reason}")
    if runs.alike is not None and runs.alike.outcome is Outcome.PASS:
        return Verdict(VerdictClass.RANDOM, f"{at}; {DRAWS_OTHERS}", rule=Rule.DRAWN_ALIKE)
    kind, why, rule = _classified(runs, criterion)
    return Verdict(kind, f"{at}; {why}", rule=rule)


def cannot_tell(reason: str) -> Verdict:
    """Where nothing that was seen diverges, and something was not seen."""
    return Verdict(VerdictClass.UNRESOLVED, f"cannot tell: {reason}", rule=Rule.SCRIPT)


def _classified(runs: ScriptRuns, criterion: Criterion) -> tuple[VerdictClass, str, Rule]:
    layer = LAYERS.get(runs.first_bad or "", BETWEEN)
    if runs.first_bad == INDUCTOR and family(runs.shown.path) == "tangent":
        layer = NO_TANGENTS
    if runs.shown.exception is not None:
        return VerdictClass.RAISES, layer, Rule.SCRIPT
    if runs.shown.call is None:
        if runs.exact and runs.shown.kind is None:
            why = f"all values of its calls are bit-equal, so that it is no rounding; {layer}"
            return VerdictClass.COMPILED_WORSE, why, Rule.SCRIPT
        return VerdictClass.UNRESOLVED, layer, Rule.SCRIPT
    if (place := runs.equal.place) is not None and place.beside is not None:
        found = classify(place.beside, criterion, own_random=False)
        kind, why = found.kind, _at(place, runs.shown.call, found.reason)
        far = any(is_far(output, place.beside) for output in place.beside.default.outputs)
        untold = found.rule is Rule.NO_REFERENCE or kind is VerdictClass.COMPILED_BETTER
        # Eager's own kernels round alike: what is off by far more does not do what the program says.
        if untold and far and runs.first_bad in BY_EAGERS_KERNELS:
            kind = VerdictClass.COMPILED_WORSE
            why = _at(place, runs.shown.call, "more than rounding explains")
        return kind, f"{why}; {layer}", found.rule if kind is found.kind else Rule.SCRIPT
    if not runs.equal.unknown:
        return VerdictClass.AMPLIFIED_ROUNDING, GROWS, Rule.SCRIPT
    if runs.shown.kind in PLAINLY_WRONG:
        return VerdictClass.COMPILED_WORSE, layer, Rule.KIND
    return VerdictClass.UNRESOLVED, f"{layer}; which is right is not known: {runs.equal.unknown}", Rule.SCRIPT


def _at(place: CompiledCall, diverging: int, reason: str) -> str:
    where = "there" if place.index == diverging else f"at call {place.index + 1} (`{place.entry}`)"
    return f"on equal inputs {where}: {reason}"
