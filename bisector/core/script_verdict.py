"""The verdict on a script: the class of its divergence, from its own runs.

The class of differing values is judged on equal inputs alone: at the first call where eager, run on the very
inputs that the compiled call had, gives something else. Where there is none up to the call that diverges,
that rounding has grown from call to call is shown by giving the script, with compilation off, what each call
gave compiled: the call that diverges must then be given what it was given compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .accuracy import AMPLIFIED, gain, is_beyond_local, is_exact, is_far
from .backends import INDUCTOR
from .channel import Channel
from .classify import PLAINLY_WRONG, classify
from .criterion import EXACT, Criterion
from .evidence import FALLBACK_RANDOM, Evidence
from .judge import judge
from .model import DivergenceKind, OutputMeasurement, family
from .outcome import Outcome
from .program import Carrier, CompiledCall, PlainRun
from .reasons import Message, Reason, Together
from .script_reasons import (
    AddsUp,
    AgreesBeside,
    AsksCompiling,
    AutogradShows,
    BetweenCalls,
    CallNotReached,
    CannotTell,
    DivergesAt,
    DynamoShows,
    EagerNotBeside,
    GivenOtherwise,
    HangsOnTime,
    LosesTangents,
    MoreThanRounding,
    NoSecondRun,
    NotByUnsteadiness,
    NotFollowed,
    NotKnownSteady,
    OnEqualInputs,
    OneSided,
    OtherwiseLaid,
    RaisesThere,
    RightUnknown,
    RoundsAlike,
    SaysAtTimes,
    SaysByNeither,
    SaysByTime,
    SaysGrown,
    ScriptDrawsOthers,
    SteadyBesides,
    SuddenlyOff,
    TwoRunsDiffer,
    UnlikeAgain,
    UnseenAt,
)
from .shown import ScriptResult, shown
from .verdict import Rule, Verdict, VerdictClass, decided

# The settings with which compiled draws from the streams that eager draws from.
DRAWS_ALIKE = (FALLBACK_RANDOM, "dynamo.use_numpy_random_stream")
# Rungs that compute with eager's own kernels, one operation at a time.
BY_EAGERS_KERNELS = ("eager", "aot_eager")
LAYERS = {"eager": DynamoShows(), "aot_eager": AutogradShows()}


@dataclass(frozen=True)
class EqualInputs:
    """The first call of the script that differs from eager on equal inputs.

    place: that call, with its evidence; None where there is none up to the call that diverges, or it is not
    known. unknown: why it is not, None where it is. channel: what carried the difference to the call that
    diverges, where no call made it, or to what the script says outside its calls; None where that was not
    asked. calls: those that eager was run beside.
    """

    place: CompiledCall | None = None
    unknown: Reason | None = None
    channel: Channel | None = None
    calls: tuple[CompiledCall, ...] = ()


NOT_ASKED = EqualInputs(unknown=EagerNotBeside())


def first_unequal(
    control: PlainRun, compiled: PlainRun, diverging: ScriptResult, criterion: Criterion
) -> EqualInputs:
    """control, compiled: the script with compilation off and as it is, each call run in eager too on the
    same inputs. diverging: what the script shows without that, at one of its calls or outside all of them."""
    calls = compiled.calls if diverging.call is None else compiled.calls[: diverging.call + 1]
    if len(calls) <= (diverging.call or 0):
        return EqualInputs(unknown=CallNotReached())
    for call in calls:
        name = call.named
        if call.beside is None:
            unseen = Message(call.beside_unseen) if call.beside_unseen else RaisesThere()
            return EqualInputs(unknown=UnseenAt(name, unseen))
        if call.beside.default.error is not None:
            return EqualInputs(unknown=UnseenAt(name, Message(call.beside.default.error)))
        again = control.calls[call.index].beside if call.index < len(control.calls) else None
        if again is None or judge(again.default, criterion).outcome is not Outcome.PASS:
            return EqualInputs(unknown=UnlikeAgain(name))
        if judge(call.beside.default, criterion).outcome is not Outcome.PASS:
            return EqualInputs(call)
        if call.beside_unseen:
            return EqualInputs(unknown=UnseenAt(name, Message(call.beside_unseen)))
    found = shown(PlainRun(control.calls[: len(calls)], status=0), PlainRun(calls, status=0), criterion)
    if diverging.call is not None and found.call != diverging.call:
        return EqualInputs(unknown=AgreesBeside())
    return _no_rounding(calls)


# Calls that differ to one side, each time the same: by chance once in two thousand.
ONE_SIDED = 12
MOSTLY = 0.95  # of the elements that differ


def _no_rounding(calls: Sequence[CompiledCall]) -> EqualInputs:
    """What the calls differ by on equal inputs, though each is within the tolerance: a place where it is more
    than rounding makes, or why it is not known to be rounding. Rounding goes to both sides, and by about what
    one ulp at each operation makes."""
    to_a_side = Counter[tuple[str, bool]]()
    for call in calls:
        for output in call.beside.default.outputs if call.beside is not None else ():
            assert call.beside is not None
            if is_beyond_local(output, call.beside):
                return EqualInputs(call)
            share = output.rises / output.n_diff if output.n_diff and not is_exact(output) else 0.5
            if not 1 - MOSTLY < share < MOSTLY:
                to_a_side[output.path, share >= MOSTLY] += 1
    for (path, larger), count in to_a_side.items():
        if count >= ONE_SIDED:
            return EqualInputs(unknown=OneSided(count, path, larger))
    return EqualInputs()


@dataclass(frozen=True)
class ScriptRuns:
    """What the runs of a script show.

    shown: compiled against compilation off. again: a second run with compilation off against the first; None
    where it was not asked. first_bad: the first rung that shows it, None where that is not known; rung: the
    run with it. exact: all values of all calls were seen, and are bit-equal. equal: what eager gives on the
    inputs of the compiled calls. same_random: what the script shows where both draw from the same random
    streams; None where no call draws. as_if_compiling: what it shows where `is_compiling` is true with
    compilation off too; None where it does not ask. steady: what differs compiled and not
    between two runs with compilation off that differ elsewhere.
    """

    shown: ScriptResult
    again: ScriptResult | None
    first_bad: str | None
    exact: bool
    equal: EqualInputs = NOT_ASKED
    same_random: ScriptResult | None = None
    rung: PlainRun | None = None
    as_if_compiling: ScriptResult | None = None
    steady: Reason | None = None

    @property
    def outcome(self) -> Outcome:
        """UNRESOLVED where a divergence is not known to be steady."""
        steady = self.again is not None and self.again.outcome is Outcome.PASS
        return Outcome.UNRESOLVED if self.shown.diverges and not steady else self.shown.outcome

    @property
    def differs_by_asking(self) -> bool:
        """Whether it agrees where `is_compiling` is true in both runs."""
        return self.as_if_compiling is not None and self.as_if_compiling.outcome is Outcome.PASS

    @property
    def layer(self) -> Reason:
        """What the first rung that shows it says."""
        if self.first_bad == INDUCTOR and family(self.shown.path) == "tangent":
            return LosesTangents()
        return LAYERS.get(self.first_bad or "", BetweenCalls())

    @property
    def by_eagers_kernels(self) -> bool:
        """Whether a run that computes with eager's own kernels shows more than rounding, where no call before
        differs in a bit."""
        if self.first_bad not in BY_EAGERS_KERNELS or self.rung is None:
            return False
        return is_beyond_rounding(self.rung)


def is_beyond_rounding(run: PlainRun) -> bool:
    """Whether the first call that differs from eager's in any bit does so by more than rounding."""
    for call in run.calls:
        if any(_differs(output) for output in call.outputs):
            return any(_is_more_than_rounding(output) for output in call.outputs)
        if call.raised is not None:
            return False
    return False


def _differs(output: OutputMeasurement) -> bool:
    return bool(output.n_diff) or Criterion().divergence(output) is not None


def _is_more_than_rounding(output: OutputMeasurement) -> bool:
    found = Criterion().divergence(output)
    if found is not None and found[0] is not DivergenceKind.VALUE:
        return True
    return bool(output.n_diff) and (is_exact(output) or gain(output) > AMPLIFIED)


def script_verdict(runs: ScriptRuns, criterion: Criterion) -> Verdict:
    """The verdict where the script diverges or it is not known whether it does."""
    if runs.again is not None and runs.again.outcome is Outcome.FAIL:
        unsteady = TwoRunsDiffer(runs.again.reason)
        place = runs.equal.place
        if place is not None and place.beside is not None:
            kind, why, rule = _by_place(runs, place, place.beside, criterion)
            if kind is VerdictClass.COMPILED_WORSE:
                return decided(kind, NotByUnsteadiness(why, unsteady), rule=rule)
        if runs.steady is not None:
            besides = SteadyBesides(runs.steady, unsteady)
            return decided(VerdictClass.UNRESOLVED, besides, rule=Rule.SCRIPT)
        return decided(VerdictClass.NONDETERMINISTIC, unsteady, rule=Rule.SCRIPT)
    if runs.shown.outcome is Outcome.UNRESOLVED:
        return cannot_tell(runs.shown.reason)
    at = DivergesAt(runs.shown.reason)
    if runs.again is None or runs.again.outcome is Outcome.UNRESOLVED:
        unknown = NoSecondRun() if runs.again is None else runs.again.reason
        return cannot_tell(NotKnownSteady(at, unknown))
    if runs.differs_by_asking:
        return decided(
            VerdictClass.OWN_DIFFERENCE, Together((at, AsksCompiling())), rule=Rule.ASKS_COMPILING
        )
    if runs.same_random is not None and runs.same_random.outcome is Outcome.PASS:
        draws = ScriptDrawsOthers(DRAWS_ALIKE)
        return decided(VerdictClass.RANDOM, Together((at, draws)), rule=Rule.DRAWN_ALIKE)
    kind, why, rule = _classified(runs, criterion)
    if kind in ROUNDING and runs.first_bad == BY_EAGERS_KERNELS[0]:
        if runs.by_eagers_kernels:
            kind, why, rule = _suddenly(runs)
        else:
            kind, why, rule = _not_known(runs, RoundsAlike())
    return decided(kind, Together((at, why)), rule=rule)


def cannot_tell(why: Reason) -> Verdict:
    """Where nothing that was seen diverges, and something was not seen."""
    return decided(VerdictClass.UNRESOLVED, CannotTell(why), rule=Rule.SCRIPT)


_Classified = tuple[VerdictClass, Reason, Rule]


def _classified(runs: ScriptRuns, criterion: Criterion) -> _Classified:
    if runs.shown.exception is not None:
        return VerdictClass.RAISES, runs.layer, Rule.SCRIPT
    if runs.equal.place is not None and runs.equal.place.beside is not None:
        return _by_place(runs, runs.equal.place, runs.equal.place.beside, criterion)
    channel = runs.equal.channel
    if channel is not None and channel.carrier is Carrier.LAYOUT:
        return VerdictClass.COMPILED_WORSE, Together((OtherwiseLaid(), runs.layer)), Rule.KIND
    if runs.shown.call is None:
        return _outside_the_calls(runs)
    if channel is not None and channel.carrier is not Carrier.UNKNOWN and runs.equal.unknown is None:
        return _by_channel(runs, channel)  # it may be time, which no rung tells
    if runs.by_eagers_kernels:
        return _suddenly(runs)
    if runs.equal.unknown is None:
        return _by_channel(runs, channel)
    if runs.shown.kind in PLAINLY_WRONG:
        return VerdictClass.COMPILED_WORSE, runs.layer, Rule.KIND
    return _not_known(runs, runs.equal.unknown)


def _suddenly(runs: ScriptRuns) -> _Classified:
    return VerdictClass.COMPILED_WORSE, Together((SuddenlyOff(), runs.layer)), Rule.EAGERS_KERNELS


ROUNDING = (VerdictClass.AMPLIFIED_ROUNDING, VerdictClass.EQUALLY_ACCURATE)


def _outside_the_calls(runs: ScriptRuns) -> _Classified:
    """Where the values of the calls agree, and the script's comparison, its end or what it prints differs."""
    channel = runs.equal.channel
    if channel is None or channel.carrier is Carrier.UNKNOWN:
        return _not_followed(runs, channel)
    if channel.carrier is Carrier.TIME:
        return VerdictClass.UNRESOLVED, SaysByTime(), Rule.GROWTH
    if channel.carrier is Carrier.OTHER:
        lost = runs.first_bad == BY_EAGERS_KERNELS[0]
        kind = VerdictClass.COMPILED_WORSE if lost else VerdictClass.UNRESOLVED
        return kind, Together((SaysByNeither(), runs.layer)), Rule.GROWTH
    if runs.exact:
        return VerdictClass.UNRESOLVED, Together((SaysAtTimes(), runs.layer)), Rule.SCRIPT
    if runs.equal.unknown is not None:
        return _not_known(runs, runs.equal.unknown)
    return VerdictClass.AMPLIFIED_ROUNDING, SaysGrown(), Rule.GROWTH


def _by_place(
    runs: ScriptRuns, place: CompiledCall, on_equal_inputs: Evidence, criterion: Criterion
) -> _Classified:
    """By what the first call that differs on equal inputs gives there."""
    if judge(on_equal_inputs.default, criterion).outcome is Outcome.PASS:
        criterion = Criterion(everywhere=EXACT)  # within the tolerance, and more than rounding makes of it
    found = classify(on_equal_inputs, criterion, own_random=False)
    unproved = found.rule is Rule.NO_REFERENCE or found.kind is VerdictClass.COMPILED_BETTER
    # Eager's own kernels round the same: what is off by far more does not do what the program says.
    far = any(is_far(output, on_equal_inputs) for output in on_equal_inputs.default.outputs)
    if unproved and (runs.by_eagers_kernels or (far and runs.first_bad in BY_EAGERS_KERNELS)):
        more = _at(place, runs.shown.call, MoreThanRounding())
        return VerdictClass.COMPILED_WORSE, Together((more, runs.layer)), Rule.EAGERS_KERNELS
    return found.kind, Together((_at(place, runs.shown.call, found.reason), runs.layer)), found.rule


def _by_channel(runs: ScriptRuns, channel: Channel | None) -> _Classified:
    """Where each call agrees on equal inputs: by what carried the difference to the one that diverges."""
    if channel is not None and channel.carrier is Carrier.VALUES:
        return VerdictClass.AMPLIFIED_ROUNDING, AddsUp(), Rule.GROWTH
    if channel is not None and channel.carrier is Carrier.TIME:
        return VerdictClass.UNRESOLVED, HangsOnTime(), Rule.GROWTH
    if channel is None or channel.call is None:
        return _not_followed(runs, channel)
    why = Together((GivenOtherwise(channel.call.named, channel.at), runs.layer))
    lost = runs.first_bad in BY_EAGERS_KERNELS
    return VerdictClass.COMPILED_WORSE if lost else VerdictClass.UNRESOLVED, why, Rule.GROWTH


def _not_followed(runs: ScriptRuns, channel: Channel | None) -> _Classified:
    return _not_known(runs, NotFollowed() if channel is None else channel.unknown)


def _not_known(runs: ScriptRuns, why: Reason) -> _Classified:
    """Which of the two is right."""
    return VerdictClass.UNRESOLVED, RightUnknown(runs.layer, why), Rule.SCRIPT


def _at(place: CompiledCall, diverging: int | None, found: Reason) -> OnEqualInputs:
    return OnEqualInputs(None if place.index == diverging else place.named, found)
