"""What is said of a script: classes are judged on equal inputs, and growth is proved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bisector.core.channel import Channel, to_call, to_words
from bisector.core.criterion import Criterion
from bisector.core.evidence import Evidence
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement
from bisector.core.notes import CallName
from bisector.core.outcome import Outcome
from bisector.core.printed import PrintedLine
from bisector.core.program import Carrier, CompiledCall, PlainRun
from bisector.core.reasons import Message
from bisector.core.script_reasons import NotByRounding, RoundsAlike, UnlikeAgain
from bisector.core.script_verdict import (
    NOT_ASKED,
    EqualInputs,
    ScriptRuns,
    cannot_tell,
    first_unequal,
    script_verdict,
)
from bisector.core.shown import ScriptResult
from bisector.core.verdict import Rule, VerdictClass
from bisector.report.reasons import words
from tests.core.measurements import AGREES, SCRIPT_AGREES, measured, off_by, output

CRITERION = Criterion()
EQUAL = Evidence(AGREES, AGREES, AGREES, (), ())
FAILS = ScriptResult(Outcome.FAIL, Message("call 3 of 3 (`step`): output[0]: largest difference 1"), 2)


def beside(made: OutputMeasurement, **fields: Any) -> Evidence:
    """What a call gives, against eager on its inputs; no ulp moves eager."""
    return Evidence(measured(made), AGREES, AGREES, (AGREES,), (), **fields)


def calls(*evidence: Evidence | None, outputs: tuple[OutputMeasurement, ...] = ()) -> PlainRun:
    """Calls of one function beside eager; the last one gives these outputs."""
    made = [CompiledCall(i, "step", beside=one) for i, one in enumerate(evidence)]
    return PlainRun((*made[:-1], replace(made[-1], outputs=outputs)), status=0)


CONTROL = calls(EQUAL, EQUAL, EQUAL)


def unequal(*evidence: Evidence | None, control: PlainRun = CONTROL) -> EqualInputs:
    return first_unequal(control, calls(*evidence, outputs=(off_by(1.0),)), FAILS, CRITERION)


def unknown(found: EqualInputs) -> str:
    return "" if found.unknown is None else words(found.unknown)


WRONG = beside(replace(off_by(0.5, n_diff=90), rms_error_eager=0.0, rms_error_compiled=0.5))


def test_growth_is_what_remains_where_every_call_agrees_on_equal_inputs() -> None:
    assert unequal(EQUAL, EQUAL, EQUAL) == EqualInputs()
    near = beside(off_by(1e-9))
    assert unequal(near, near, near) == EqualInputs()


def several(count: int, **fields: Any) -> EqualInputs:
    """Calls that differ a little each on equal inputs, of which the last diverges."""
    near = beside(off_by(1e-6, n_diff=1, **fields))
    again = calls(*[EQUAL] * count)
    run = calls(*[near] * count, outputs=(off_by(1.0),))
    return first_unequal(again, run, replace(FAILS, call=count - 1), CRITERION)


def test_small_differences_that_go_to_one_side_each_time_are_no_rounding() -> None:
    found = several(12, rises=1)
    assert found.place is None and "in 12 calls output[0] is larger than eager's" in unknown(found)
    assert "smaller" in unknown(several(12, rises=0))
    assert several(11, rises=1) == EqualInputs(), "by chance"


def test_a_small_difference_that_no_ulp_makes_is_no_rounding() -> None:
    stale = beside(off_by(9e-6, size=1e-3, scale=1e-3, rises=25))
    found = unequal(EQUAL, stale, EQUAL)
    assert found.place is not None and found.place.index == 1
    wrong = replace(off_by(9e-6, size=1e-3, scale=1e-3), rms_error_eager=0.0, rms_error_compiled=5e-6)
    at_it = at(replace(stale, default=measured(replace(wrong, n_diff=90))))
    assert kind(runs(equal=at_it)) is VerdictClass.COMPILED_WORSE
    moved = measured(off_by(5e-7, size=1e-3, scale=1e-3))
    assert unequal(EQUAL, replace(stale, nudged=(moved,)), EQUAL) == EqualInputs(), "an ulp moves it as far"


@pytest.mark.parametrize("at", range(3))
def test_the_first_call_that_differs_on_equal_inputs_is_the_place(at: int) -> None:
    evidence = [EQUAL, EQUAL, EQUAL]
    evidence[at] = WRONG
    found = unequal(*evidence)
    assert found.place is not None and found.place.index == at
    assert not found.unknown


def test_a_call_beside_which_eager_did_not_run_proves_no_growth() -> None:
    one = CompiledCall(0, "step", beside_unseen="eager does not run a second time on its inputs: no")
    compiled = calls(EQUAL, EQUAL, EQUAL, outputs=(off_by(1.0),))
    compiled = replace(compiled, calls=(one, *compiled.calls[1:]))
    found = first_unequal(CONTROL, compiled, FAILS, CRITERION)
    assert unknown(found) == "at call 1 (`step`) eager does not run a second time on its inputs: no"


def test_a_call_of_which_not_all_was_compared_proves_no_growth() -> None:
    compiled = calls(EQUAL, EQUAL, EQUAL, outputs=(off_by(1.0),))
    partly = replace(compiled.calls[1], beside_unseen="output[0] is too large to keep")
    compiled = replace(compiled, calls=(compiled.calls[0], partly, compiled.calls[2]))
    found = first_unequal(CONTROL, compiled, FAILS, CRITERION)
    assert found.place is None and "too large to keep" in unknown(found)


def test_a_function_that_gives_something_else_when_eager_runs_it_again_is_not_blamed() -> None:
    control = calls(EQUAL, beside(off_by(0.5)), EQUAL)
    found = unequal(EQUAL, WRONG, EQUAL, control=control)
    assert unknown(found) == "call 2 (`step`) gives something else in eager when it is run again"
    assert unequal(EQUAL, EQUAL, EQUAL, control=control) == found, "it agrees there with what is not eager"


def test_a_script_that_diverges_no_more_beside_eager_proves_nothing() -> None:
    compiled = calls(EQUAL, EQUAL, EQUAL, outputs=(output(),))
    assert "does not diverge" in unknown(first_unequal(CONTROL, compiled, FAILS, CRITERION))
    early = calls(EQUAL, EQUAL, outputs=(output(),))
    assert "did not come to that call" in unknown(first_unequal(CONTROL, early, FAILS, CRITERION))


def runs(
    shown: ScriptResult = FAILS,
    again: ScriptResult | None = None,
    first: str | None = "inductor",
    **more: Any,
) -> ScriptRuns:
    return ScriptRuns(shown, again or SCRIPT_AGREES, first, **{"exact": False, **more})


def kind(asked: ScriptRuns) -> VerdictClass:
    return script_verdict(asked, CRITERION).kind


def at(evidence: Evidence) -> EqualInputs:
    return EqualInputs(CompiledCall(2, "step", beside=evidence))


VALUES, TIME, OTHER = (Channel(carrier) for carrier in (Carrier.VALUES, Carrier.TIME, Carrier.OTHER))
HIDDEN = Channel.hidden("not all could be kept")


@pytest.mark.parametrize("first", ["eager", "aot_eager", "inductor", None])
def test_rounding_is_said_only_where_growth_is_proved(first: str | None) -> None:
    carried = EqualInputs(channel=VALUES)
    found = script_verdict(runs(first=first, equal=carried), CRITERION)
    if first == "eager":  # its kernels round alike
        assert found.kind is VerdictClass.UNRESOLVED and words(RoundsAlike()) in words(found.reason)
    else:
        assert found.kind is VerdictClass.AMPLIFIED_ROUNDING
    for hidden in (None, HIDDEN):
        assert kind(runs(first=first, equal=EqualInputs(channel=hidden))) is VerdictClass.UNRESOLVED
    moved_otherwise = EqualInputs(unknown=NotByRounding(), channel=VALUES)
    for equal in (NOT_ASKED, EqualInputs(unknown=Message("at call 1 nothing was seen")), moved_otherwise):
        for shown in (FAILS, replace(FAILS, call=None)):
            if shown.call is None and equal.channel is None:
                continue
            found = script_verdict(runs(shown, first=first, equal=equal), CRITERION)
            assert found.kind is VerdictClass.UNRESOLVED
            assert unknown(equal) in words(found.reason)


PARTED = Channel(Carrier.OTHER, CompiledCall(1, "step"), "argument[0]")


@pytest.mark.parametrize(
    ("first", "expected"),
    [("eager", VerdictClass.COMPILED_WORSE), ("inductor", VerdictClass.UNRESOLVED)],
)
def test_what_does_not_come_through_the_values_of_the_calls_is_no_rounding(
    first: str, expected: VerdictClass
) -> None:
    found = script_verdict(runs(first=first, equal=EqualInputs(channel=PARTED)), CRITERION)
    assert (found.kind, found.rule) == (expected, Rule.GROWTH)
    assert "call 2 (`step`) is given another argument[0]" in words(found.reason)
    found = script_verdict(runs(first=first, equal=EqualInputs(channel=TIME)), CRITERION)
    assert found.kind is VerdictClass.UNRESOLVED and "how long earlier calls take" in words(found.reason)


def test_values_that_lie_otherwise_in_memory_are_of_another_kind() -> None:
    laid = EqualInputs(channel=Channel(Carrier.LAYOUT))
    printed = replace(FAILS, call=None, path="line[2]")
    for shown in (FAILS, printed):
        found = script_verdict(runs(shown, first="inductor", equal=laid, exact=True), CRITERION)
        assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.KIND)
        assert "the strides of an output are others than eager's" in words(found.reason)


def test_the_channel_is_what_carries_a_difference_up_to_the_call_that_diverges() -> None:
    kept = calls(None, None, None)
    assert to_call(kept, kept, 2) == VALUES
    assert to_call(kept, replace(kept, parted=1, at="argument[0]"), 2) == PARTED
    assert "cannot stand" in words(to_call(kept, replace(kept, parted=1), 2).unknown)
    assert "does not come to that call" in words(to_call(kept, calls(None, None), 2).unknown)


def test_the_channel_to_what_a_script_says_is_what_makes_it_say_the_same() -> None:
    kept = replace(calls(None), printed=("4.25",), agreed=(True, False))
    line = (PrintedLine(0),)
    assert to_words(kept, kept, line) == VALUES
    assert to_words(kept, replace(kept, printed=("4.2500001",)), line) == OTHER, "it is compared exactly"
    assert to_words(kept, replace(kept, agreed=(True, True)), ()) == OTHER
    assert to_words(kept, replace(kept, status=1), ()) == OTHER
    assert "cannot stand" in words(to_words(kept, replace(kept, printed=(), parted=0), line).unknown)
    late = to_words(kept, replace(kept, status=None), line)
    assert late.carrier is Carrier.UNKNOWN and "its time being up" in words(late.unknown)


def rung(*outputs: OutputMeasurement) -> PlainRun:
    """A run with a lower backend, a call for each output."""
    return PlainRun(tuple(CompiledCall(i, "step", (one,)) for i, one in enumerate(outputs)), status=0)


AGAIN = EqualInputs(unknown=UnlikeAgain(CallName(1, "step")))


@pytest.mark.parametrize(
    ("first", "calls_of_it", "expected"),
    [
        ("eager", (output(), off_by(0.5)), VerdictClass.COMPILED_WORSE),
        ("aot_eager", (output(), off_by(0.5)), VerdictClass.COMPILED_WORSE),
        ("eager", (off_by(1e-7), off_by(0.5)), VerdictClass.UNRESOLVED),  # it may have grown
        ("eager", (output(), off_by(2e-6)), VerdictClass.UNRESOLVED),  # it may be rounding
        ("inductor", (output(), off_by(0.5)), VerdictClass.UNRESOLVED),
    ],
)
def test_what_eagers_own_kernels_make_at_once_is_no_rounding(
    first: str, calls_of_it: tuple[OutputMeasurement, ...], expected: VerdictClass
) -> None:
    """That eager gives something else when a call is run again is no reason against it: it may change
    state."""
    asked = runs(first=first, equal=AGAIN, rung=rung(*calls_of_it))
    assert kind(asked) is expected


def test_what_a_call_that_raises_leaves_behind_is_no_rounding_either() -> None:
    lost = replace(off_by(1.0), dtype="int64", path="state[_attempts]")
    one = CompiledCall(0, "step", (lost,), raised="LinAlgError: not positive")
    not_reached = unequal(None, control=calls(None))
    assert unknown(not_reached) == "with eager run beside it the script did not come to that call"
    first = first_unequal(CONTROL, PlainRun((one,) * 3, status=0), FAILS, CRITERION)
    assert unknown(first) == "at call 1 (`step`) it raises, and gives nothing to compare"
    asked = runs(first="eager", equal=first, rung=PlainRun((one,), status=0))
    assert kind(asked) is VerdictClass.COMPILED_WORSE
    nothing = PlainRun((replace(one, outputs=()),), status=0)
    assert kind(replace(asked, rung=nothing)) is VerdictClass.UNRESOLVED


def test_the_place_makes_the_class() -> None:
    found = script_verdict(runs(equal=at(WRONG)), CRITERION)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.ACCURACY)
    assert "on equal inputs there: output[0]: compiled is farther" in words(found.reason)
    alike = beside(replace(off_by(0.5, n_diff=90), rms_error_eager=0.5, rms_error_compiled=0.5))
    assert kind(runs(equal=at(alike))) is VerdictClass.EQUALLY_ACCURATE


def test_a_script_that_agrees_where_both_draw_alike_uses_another_random_stream() -> None:
    found = script_verdict(runs(equal=at(WRONG), same_random=SCRIPT_AGREES), CRITERION)
    assert (found.kind, found.rule) == (VerdictClass.RANDOM, Rule.DRAWN_ALIKE)
    for alike in (FAILS, ScriptResult(Outcome.UNRESOLVED, Message("it was stopped"))):
        assert kind(runs(equal=at(WRONG), same_random=alike)) is VerdictClass.COMPILED_WORSE


def test_a_place_before_the_call_that_diverges_is_named() -> None:
    before = EqualInputs(CompiledCall(0, "first", beside=WRONG))
    found = script_verdict(runs(equal=before), CRITERION)
    assert "on equal inputs at call 1 (`first`): output[0]" in words(found.reason)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("eager", VerdictClass.COMPILED_WORSE),
        ("aot_eager", VerdictClass.COMPILED_WORSE),
        ("inductor", VerdictClass.UNRESOLVED),
        (None, VerdictClass.UNRESOLVED),
    ],
)
def test_of_few_elements_without_a_reference_only_eagers_own_kernels_may_not_be_far_off(
    first: str | None, expected: VerdictClass
) -> None:
    far = at(beside(off_by(0.5, n_diff=2)))
    assert kind(runs(first=first, equal=far)) is expected
    many = at(beside(off_by(0.5, n_diff=90)))
    assert kind(runs(first=first, equal=many)) is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize(
    ("first", "expected"), [("eager", "compiled-worse"), ("inductor", "compiled-better")]
)
def test_dynamo_does_not_improve_a_program(first: str, expected: str) -> None:
    """Eager is its meaning, and the same kernels round alike."""
    nearer = beside(replace(off_by(0.5, n_diff=90), rms_error_eager=0.5, rms_error_compiled=0.0))
    assert kind(runs(first=first, equal=at(nearer))).value == expected


@pytest.mark.parametrize("which", [DivergenceKind.SHAPE, DivergenceKind.DTYPE, DivergenceKind.ALIAS])
def test_another_kind_of_result_is_wrong_though_no_equal_inputs_were_seen(which: DivergenceKind) -> None:
    found = script_verdict(runs(replace(FAILS, kind=which)), CRITERION)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.KIND)


PRINTED = ScriptResult(Outcome.FAIL, Message("line 1 of its output: it prints `1`, with compilation off `7`"))


@pytest.mark.parametrize(
    ("carried", "first", "expected"),
    [
        (OTHER, "eager", "compiled-worse"),  # a side effect that Dynamo loses
        (OTHER, "aot_eager", "unresolved"),  # it may be about how autograd computes, such as what it saves
        (OTHER, "inductor", "unresolved"),
        (TIME, "eager", "unresolved"),
        (VALUES, "inductor", "amplified-rounding"),
        (VALUES, "eager", "unresolved"),  # eager's own kernels round alike
        (HIDDEN, "eager", "unresolved"),
        (None, "eager", "unresolved"),
    ],
)
def test_what_is_printed_is_wrong_where_neither_values_nor_time_make_it_and_dynamo_shows_it(
    carried: Channel | None, first: str, expected: str
) -> None:
    asked = runs(PRINTED, first=first, equal=EqualInputs(channel=carried))
    assert kind(asked).value == expected
    if expected == "amplified-rounding":
        assert kind(replace(asked, exact=True)) is VerdictClass.UNRESOLVED, "no value could carry it"
        unseen = EqualInputs(unknown=Message("it was not seen"), channel=VALUES)
        assert kind(replace(asked, equal=unseen)) is VerdictClass.UNRESOLVED
        wrong = EqualInputs(CompiledCall(0, "step", beside=WRONG), channel=VALUES)
        assert kind(replace(asked, equal=wrong)) is VerdictClass.COMPILED_WORSE


def test_a_script_that_asks_whether_it_is_compiled_differs_by_itself() -> None:
    found = script_verdict(runs(equal=at(WRONG), as_if_compiling=SCRIPT_AGREES), CRITERION)
    assert (found.kind, found.rule) == (VerdictClass.OWN_DIFFERENCE, Rule.ASKS_COMPILING)
    assert kind(runs(equal=at(WRONG), as_if_compiling=FAILS)) is VerdictClass.COMPILED_WORSE


def test_an_exception_makes_the_class() -> None:
    raised = replace(FAILS, exception="TypeError: no")
    assert kind(runs(raised)) is VerdictClass.RAISES


UNKNOWN = ScriptResult(Outcome.UNRESOLVED, Message("compiled, the script was stopped, its time being up"))


def test_what_was_not_seen_is_cannot_tell() -> None:
    found = script_verdict(runs(UNKNOWN), CRITERION)
    assert found == cannot_tell(Message("compiled, the script was stopped, its time being up"))
    assert words(found.reason).startswith("cannot tell: ")
    assert runs(UNKNOWN).outcome is Outcome.UNRESOLVED


def test_a_divergence_that_is_not_known_to_be_steady_is_cannot_tell() -> None:
    asked = runs(again=UNKNOWN)
    assert asked.outcome is Outcome.UNRESOLVED
    said = words(script_verdict(asked, CRITERION).reason)
    assert said.startswith("cannot tell: the script diverges at call 3")


def test_a_script_whose_eager_runs_differ_is_nondeterministic() -> None:
    asked = runs(again=ScriptResult(Outcome.FAIL, Message("call 1 of 3")))
    assert asked.outcome is Outcome.UNRESOLVED
    assert kind(asked) is VerdictClass.NONDETERMINISTIC
    wrong = script_verdict(replace(asked, equal=at(WRONG)), CRITERION)
    assert wrong.kind is VerdictClass.COMPILED_WORSE and "which does not explain it" in words(wrong.reason)
    also = script_verdict(replace(asked, steady=Message("line 2 of its output: it prints `1`")), CRITERION)
    assert also.kind is VerdictClass.UNRESOLVED and words(also.reason).startswith("line 2 of its output")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_of_steady_runs_the_outcome_is_what_they_show(outcome: Outcome) -> None:
    asked = SCRIPT_AGREES if outcome is Outcome.PASS else ScriptResult(outcome, Message("why"))
    assert runs(asked).outcome is outcome


def test_no_measurement_is_no_equality() -> None:
    nothing = Evidence.without(Measurement(error="eager fails"))
    found = unequal(EQUAL, nothing, EQUAL)
    assert found.place is None and found.unknown


def test_of_a_tangent_that_a_kernel_does_not_carry_no_formula_and_no_graph_break_is_blamed() -> None:
    lost = ScriptResult(
        Outcome.FAIL, Message("call 1 of 1 (`f`): tangent[0]: a NoneType"), 0, kind=DivergenceKind.ALIAS,
        path="tangent[0]",
    )  # fmt: skip
    by_inductor = ScriptRuns(lost, SCRIPT_AGREES, "inductor", exact=False)
    found = script_verdict(by_inductor, CRITERION)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.KIND)
    assert "carries no tangents" in words(found.reason) and "between graphs" not in words(found.reason)
    above = script_verdict(replace(by_inductor, first_bad="aot_eager"), CRITERION)
    assert "carries no tangents" not in words(above.reason)
