"""The class of a divergence, from the numbers that the worked cases gave."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bisector
from bisector.core.accuracy import beneath_tolerance, beneath_tolerance_in_calls
from bisector.core.classify import classify
from bisector.core.compared import Compared, NothingCompared
from bisector.core.criterion import Criterion
from bisector.core.evidence import Evidence, Repeated, Rerun
from bisector.core.judge import judge
from bisector.core.model import (
    DivergenceKind,
    FarElements,
    Measurement,
    OutputMeasurement,
    ProbeResult,
    Signature,
)
from bisector.core.outcome import Outcome
from bisector.core.reasons import AllAgree, Message
from bisector.core.shown import ScriptResult
from bisector.core.trace import NodeTrace, Trace
from bisector.core.verdict import EXPERIMENTS, NoExperiment, Rule, Verdict, VerdictClass, decided
from bisector.report.reasons import words
from tests.core.helpers import ends
from tests.core.measurements import AGREES, CRASH, measured, off_by, output


def verdict(
    default: Measurement,
    *,
    nudged: Measurement = AGREES,
    again: Measurement = AGREES,
    restored: Measurement = AGREES,
    criterion: Criterion | None = None,
    own_random: bool = False,
    followed: Trace | None = None,
    **more: Any,
) -> Verdict:
    """more: fields of `Evidence`."""
    evidence = Evidence(default, again, restored, (AGREES, nudged), (), **more)
    return classify(evidence, criterion or Criterion(), own_random, followed)


def diverging(
    eager: float | None, compiled: float | None, least: float = 0.0, **fields: Any
) -> OutputMeasurement:
    """An output with these distances to the reference; most elements differ."""
    given = {"n_diff": 90, "rms_error_eager": eager, "rms_error_compiled": compiled, "rms_rounding": least}
    return off_by(1e-2, **{**given, **fields})


FAR_MOVED = off_by(0.5, n_diff=100)  # four million ulp of float32: beyond what 100 ulp explain


def test_outputs_that_agree_need_no_reference() -> None:
    assert verdict(AGREES) == Verdict(VerdictClass.AGREES, AllAgree(), compared=Compared(values=1))


def test_an_agreement_without_what_was_compared_cannot_be_put_together() -> None:
    for compared in (None, Compared(), Compared(values=3, unseen=("output[1] was not looked at",))):
        with pytest.raises(NothingCompared):
            Verdict(VerdictClass.AGREES, AllAgree(), compared=compared)
        with pytest.raises(NothingCompared):
            ProbeResult(Outcome.PASS, Message("agrees"), compared=compared)
        with pytest.raises(NothingCompared):
            ScriptResult(Outcome.PASS, compared=compared)


def test_runs_of_which_nothing_or_not_all_was_compared_do_not_agree() -> None:
    assert judge(Measurement(), Criterion()).outcome is Outcome.UNRESOLVED
    partly = Measurement((output(),), unseen="output[1] was not looked at")
    assert judge(partly, Criterion()).outcome is Outcome.UNRESOLVED
    assert judge(replace(partly, outputs=(off_by(1.0),)), Criterion()).outcome is Outcome.FAIL
    assert judge(Measurement(same=1), Criterion()).outcome is Outcome.PASS


def test_a_compile_that_crashes_is_unresolved_with_its_reason() -> None:
    found = verdict(CRASH)
    assert (found.kind, words(found.reason), found.signatures) == (VerdictClass.UNRESOLVED, CRASH.error, ())


def test_a_divergence_keeps_its_signatures() -> None:
    found = verdict(measured(diverging(1e-8, 1e-2), output("output[1]")))
    assert found.signatures == (Signature("output[0]", DivergenceKind.VALUE),)


def test_eager_that_differs_from_itself_on_one_random_state_is_nondeterministic() -> None:
    found = verdict(measured(diverging(0.0, 1.0)), restored=measured(FAR_MOVED))
    assert found.kind is VerdictClass.NONDETERMINISTIC


def test_eager_that_draws_is_nondeterministic_unless_compile_draws_the_same() -> None:
    default, again = measured(diverging(0.0, 1.0)), measured(FAR_MOVED)
    told = verdict(default, again=again)
    assert told.kind is VerdictClass.NONDETERMINISTIC
    assert "fallback_random" in words(told.reason)
    assert verdict(default, again=again, own_random=True).kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize(
    ("eager", "compiled", "kind"),
    [
        (0.0, 3.27, VerdictClass.COMPILED_WORSE),
        (3.03e-38, 1.01e-30, VerdictClass.COMPILED_WORSE),
        (3.7e-4, 0.0, VerdictClass.COMPILED_BETTER),
        (8.4e-4, 8.6e-4, VerdictClass.EQUALLY_ACCURATE),
        (1.0, 1.9, VerdictClass.EQUALLY_ACCURATE),
        (1.0, 2.1, VerdictClass.COMPILED_WORSE),
        (2.1, 1.0, VerdictClass.COMPILED_BETTER),
    ],
)
def test_twice_the_error_tells_the_two_apart(eager: float, compiled: float, kind: VerdictClass) -> None:
    tiny = Criterion((0.0, 0.0))
    assert verdict(measured(diverging(eager, compiled)), criterion=tiny).kind is kind


@pytest.mark.parametrize(
    ("eager", "compiled", "least", "kind"),
    [
        # layer_norm in bfloat16: compiled is rounded right everywhere, and it does not show
        (4.966e-3, 4.949e-3, 4.949e-3, VerdictClass.EQUALLY_ACCURATE),
        # gelu backward in bfloat16: the casts that compiled leaves out make half of eager's error
        (3.323e-3, 2.298e-3, 2.298e-3, VerdictClass.COMPILED_BETTER),
        # attention in bfloat16
        (7.146e-3, 2.560e-3, 2.463e-3, VerdictClass.COMPILED_BETTER),
        # folded batch norm in bfloat16
        (8.409e-4, 8.613e-4, 6.122e-4, VerdictClass.EQUALLY_ACCURATE),
    ],
)
def test_the_last_rounding_is_nobodys_merit_but_a_difference_must_show_through_it(
    eager: float, compiled: float, least: float, kind: VerdictClass
) -> None:
    assert verdict(measured(diverging(eager, compiled, least))).kind is kind


@pytest.mark.parametrize(("eager", "compiled"), [(0.649, 0.639), (0.2, 0.9), (0.9, 0.2)])
def test_where_one_ulp_moves_eager_as_far_a_few_times_the_error_is_chance(
    eager: float, compiled: float
) -> None:
    found = verdict(measured(diverging(eager, compiled)), nudged=measured(FAR_MOVED))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING
    assert "one ulp at each node" in words(found.reason)


def test_an_error_of_another_order_is_no_chance_though_eager_is_sensitive() -> None:
    """The softmax whose product is rounded once in one place and twice in the other."""
    found = verdict(measured(diverging(0.0, 1.1e5)), nudged=measured(FAR_MOVED))
    assert found.kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize(("eager", "compiled"), [(0.0, 1.95e-3), (1.95e-3, 0.0), (1.38e-3, 1.38e-3)])
def test_on_which_side_two_flipped_codes_fall_is_chance(eager: float, compiled: float) -> None:
    codes = {"dtype": "uint8", "shape": (1 << 19,), "numel": 1 << 19, "scale": 126.0, "n_diff": 2}
    default = diverging(eager, compiled, unexplained=0, unmoved=0, **codes)
    nudged = off_by(1.0, **{**codes, "n_diff": 3})
    found = verdict(measured(default), nudged=measured(nudged), criterion=Criterion((0.0, 0.0)))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING


def test_two_wrong_codes_that_no_rounding_explains_are_wrong() -> None:
    default = diverging(0.0, 1.95e-3, dtype="uint8", numel=1 << 19, n_diff=2)
    assert verdict(measured(default), criterion=Criterion((0.0, 0.0))).kind is VerdictClass.COMPILED_WORSE


def draws(*errors: tuple[float, float]) -> tuple[Measurement, ...]:
    """One measurement for each (eager, compiled), each of another size."""
    sized = enumerate(errors, 100)
    return tuple(measured(diverging(off, on, **{**FEW, "scale": float(size)})) for size, (off, on) in sized)


FEW = {"numel": 8, "shape": (8,), "n_diff": 8}


def test_a_few_elements_are_told_by_other_inputs_or_not_at_all() -> None:
    default = measured(diverging(0.0, 4.0, **FEW))
    consistent = draws(*[(0.1, 4.0)] * 24)
    assert verdict(default, redrawn=consistent).kind is VerdictClass.COMPILED_WORSE
    sensitive = verdict(default, redrawn=consistent, nudged=measured(FAR_MOVED))
    assert sensitive.kind is VerdictClass.COMPILED_WORSE
    assert verdict(default, nudged=measured(FAR_MOVED)).kind is VerdictClass.AMPLIFIED_ROUNDING


BFLOAT16 = 2.0**-8


def test_a_few_elements_that_are_off_by_far_more_than_rounding_need_no_other_inputs() -> None:
    wrong = measured(diverging(0.0, 4.0, **FEW))
    assert verdict(wrong).kind is VerdictClass.COMPILED_WORSE
    better = verdict(measured(diverging(4.0, 1e-9, **FEW)))
    assert better.kind is VerdictClass.COMPILED_BETTER
    for default in (wrong, measured(diverging(0.1, 4.0, **FEW))):
        narrow = verdict(default, coarsest=BFLOAT16)
        assert narrow.kind is VerdictClass.UNRESOLVED, "a rounding to bfloat16 may make as much of it"
    assert verdict(measured(diverging(0.1, 4.0, **FEW))).kind is VerdictClass.UNRESOLVED


def test_how_many_elements_an_output_has_may_hang_on_rounding() -> None:
    default = measured(off_by(0.0, n_diff=0, shape=(5,), shape_compiled=(4,)))
    found = verdict(default)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.KIND)
    nudged = measured(off_by(0.0, n_diff=0, shape=(5,), shape_compiled=(6,)))
    found = verdict(default, nudged=nudged)
    assert (found.kind, found.rule) == (VerdictClass.AMPLIFIED_ROUNDING, Rule.ROUNDING)


def test_a_few_elements_that_lean_to_one_side_in_seven_of_ten_draws_lean_by_chance() -> None:
    leaning = draws(*[(0.1, 4.0)] * 17, *[(1.0, 0.1)] * 7)
    found = verdict(measured(diverging(0.0, 4.0, **FEW)), redrawn=leaning, nudged=measured(FAR_MOVED))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING


def test_an_output_that_no_draw_changes_was_drawn_once() -> None:
    few = diverging(2.1e-9, 6.9e-9, **FEW)
    assert verdict(measured(few), redrawn=(measured(few),) * 24).kind is not VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize("eager, compiled", [(0.0, 1e-7), (2.1e-9, 1e-5)])
def test_what_rounding_does_not_make_is_wrong_though_no_draw_changes_it(
    eager: float, compiled: float
) -> None:
    """Of integers that are multiplied in bfloat16 eager is exact, and none is drawn anew."""
    few = measured(diverging(eager, compiled, **FEW))
    assert verdict(few, redrawn=(few,) * 24).kind is VerdictClass.COMPILED_WORSE


def test_errors_that_are_alike_over_all_draws_are_equally_accurate_though_not_here() -> None:
    alike = draws(*[(1.0, 0.2), (0.2, 1.0)] * 12)
    found = verdict(measured(diverging(0.0, 4.0, **FEW)), redrawn=alike)
    assert found.kind is VerdictClass.EQUALLY_ACCURATE
    assert words(found.reason) == (
        "output[0]: compiled is about as far as eager from the float64 reference over 24 other inputs "
        "(rms error 0.721, eager 0.721); which of the two is nearer on these is chance"
    )
    assert found.figures["other_inputs"] == 24


def test_elements_that_are_not_finite_tell_more_than_other_inputs() -> None:
    default = measured(diverging(0.0, 0.0, reference_nonfinite_compiled=2, **FEW))
    found = verdict(default, redrawn=draws(*[(0.1, 4.0)] * 24))
    assert found.kind is VerdictClass.COMPILED_WORSE
    assert words(found.reason) == (
        "output[0]: compiled is farther from the float64 reference: 2 elements are not finite where it is "
        "(eager: 0)"
    )


def test_codes_that_no_rounding_reaches_are_wrong_though_at_each_node_the_error_is_small() -> None:
    """It is held to the largest element, beside which an error of a small one is nothing."""
    sine = NodeTrace("sin", "aten.sin", "", (), True, True, 2.0, 1e-7, False, None, 1e-7, False, None)
    last = NodeTrace("codes", "aten.to", "", ("sin",), True, gain=3e5, difference=1.0)
    trace = Trace((sine, last), {"output[0]": "codes"})
    codes = diverging(0.0, 4.7, dtype="int8", n_diff=90)
    rounding = "amplified-rounding"
    for unexplained, expected in ((0, rounding), (90, "compiled-worse"), (None, rounding)):
        output = replace(codes, unexplained=unexplained, unmoved=unexplained)
        assert verdict(measured(output), followed=trace).kind.value == expected
    cast = verdict(measured(replace(codes, unexplained=90, unmoved=90)), executed=AGREES)
    assert (cast.kind, cast.rule) == (VerdictClass.ELIDED_ROUNDING, Rule.CASTS)


def test_many_elements_a_hundred_times_farther_off_are_not_what_a_sum_that_cancels_leaves() -> None:
    trace = ends_in(False, 2e-6)
    assert verdict(measured(diverging(1e-8, 1e-7)), followed=trace).kind is not VerdictClass.COMPILED_WORSE
    assert verdict(measured(diverging(1e-10, 1e-7)), followed=trace).kind is VerdictClass.COMPILED_WORSE


def test_an_output_beside_one_that_casts_explain_is_judged_apart() -> None:
    cast, wrong = diverging(1.0, 9.0), replace(diverging(0.0, 4.0), path="output[1]")
    wide = {"widest": measured(diverging(9.0, 1.0), wrong)}
    mended = {**wide, "executed": measured(output(), wrong)}
    assert verdict(measured(cast), **mended).kind is VerdictClass.ELIDED_ROUNDING
    assert verdict(measured(cast, wrong), **mended).kind is VerdictClass.COMPILED_WORSE


def test_draws_beyond_all_that_eager_draws_are_not_another_random_stream() -> None:
    default, apart = measured(off_by(0.5)), measured(off_by(0.4))
    drawn = {"again": apart, "alike": AGREES}
    assert verdict(default, **drawn).kind is VerdictClass.RANDOM
    found = verdict(default, outside={"output[0]": 36}, **drawn)
    assert (found.kind, found.rule) == (VerdictClass.UNRESOLVED, Rule.DRAWN_ALIKE)
    assert "36 elements that compiled draws lie beyond" in words(found.reason)
    wrong = verdict(measured(diverging(1e-8, 3e-4)), outside={"output[0]": 36}, own_random=True)
    assert wrong.kind is VerdictClass.COMPILED_WORSE, "eager's random numbers are not among what differs"


NOISY, STEADY = off_by(0.5, path="output[1]", n_diff=90), replace(diverging(0.0, 4.0), path="output[0]")


def test_an_output_that_is_steady_is_judged_where_another_is_not() -> None:
    """An output of noise, or of memory that nothing was written to, excuses no other."""
    both = measured(STEADY, NOISY)
    undefined = {"empty": "memory that nothing was written to"}
    for more in ({}, {"undefined": undefined, "undefined_paths": ("output[1]",)}):
        found = verdict(both, restored=measured(output(), NOISY), **more)
        assert found.kind is VerdictClass.COMPILED_WORSE
        assert {s.path for s in found.signatures} == {"output[0]"}
        alone = verdict(measured(output(), NOISY), restored=measured(output(), NOISY), **more)
        assert alone.kind in (VerdictClass.NONDETERMINISTIC, VerdictClass.UNDEFINED)


def many(count: int, **fields: Any) -> Measurement:
    return measured(output(shape=(100,), shape_compiled=(100 + count,), **fields))


@pytest.mark.parametrize(
    ("compiled", "nudged", "expected"),
    [(3, 1, "amplified-rounding"), (29, 1, "unresolved"), (29, 10, "amplified-rounding")],
)
def test_how_many_elements_there_are_is_rounding_where_an_ulp_changes_about_as_many(
    compiled: int, nudged: int, expected: str
) -> None:
    assert verdict(many(compiled), nudged=many(nudged)).kind.value == expected
    assert verdict(many(compiled)).kind is VerdictClass.COMPILED_WORSE
    mended = verdict(many(compiled), nudged=many(nudged), executed=AGREES)
    assert (mended.kind, mended.rule) == (VerdictClass.ELIDED_ROUNDING, Rule.CASTS)


@pytest.mark.parametrize(
    ("without_casts", "expected"), [(0, "elided-rounding"), (4, "elided-rounding"), (5, "unresolved")]
)
def test_casts_make_how_many_elements_there_are_only_where_eager_without_them_has_about_as_many(
    without_casts: int, expected: str
) -> None:
    left_out = many(without_casts) if without_casts else AGREES
    found = verdict(many(29), nudged=many(1), executed=AGREES, left_out=left_out)
    assert (found.kind.value, found.rule) == (expected, Rule.CASTS)


def test_integers_have_no_rounding() -> None:
    wrong = diverging(3.0, 3.0, dtype="int64", n_diff=90, unexplained=88, unmoved=88)
    found = verdict(measured(wrong), nudged=measured(off_by(1.0, dtype="int64", n_diff=2)))
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.EXACT_DTYPE)
    assert words(found.reason).endswith("int64 has no rounding, and none before it explains 88 of them")


def test_an_index_that_rounding_moves_less_far_is_neither_rounding_nor_known_to_be_wrong() -> None:
    def kind(unexplained: int, unmoved: int, n_diff: int = 1) -> VerdictClass:
        index = diverging(45.0, 0.0, dtype="int64", n_diff=n_diff, unexplained=unexplained, unmoved=unmoved)
        return verdict(measured(index), nudged=measured(off_by(1.0, dtype="int64", n_diff=n_diff))).kind

    assert kind(0, 0) is VerdictClass.AMPLIFIED_ROUNDING
    assert kind(1, 0) is VerdictClass.UNRESOLVED
    assert kind(1, 1) is VerdictClass.COMPILED_WORSE
    assert kind(20, 20, n_diff=80) is VerdictClass.AMPLIFIED_ROUNDING, "so few runs miss a quarter of them"
    assert kind(40, 40, n_diff=80) is VerdictClass.COMPILED_WORSE


def followed_to(dtype: str, *, wrong: bool) -> tuple[Measurement, Trace]:
    """A sine that rounds otherwise, or is wrong, and an output without rounding that reads it."""
    first = NodeTrace(
        "sin", "aten.sin", "", (), True, True, 900.0 if wrong else 2.0, 1e-4, wrong, None, 1e-4, wrong, 0.5
    )
    last = NodeTrace("gt", "aten.gt", "", ("sin",), True, gain=3e5, difference=1.0)
    return measured(diverging(0.0, 0.02, dtype=dtype, n_diff=3)), Trace((first, last), ends("gt"))


def test_a_node_beyond_rounding_makes_the_verdict_however_few_elements_of_a_mask_it_flips() -> None:
    default, trace = followed_to("bool", wrong=True)
    found = verdict(default, followed=trace, nudged=measured(FAR_MOVED), criterion=Criterion((0.0, 0.0)))
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.NODE)
    assert found.figures == {"local_ulp": 900.0, "eager_ulp": 0.5}


def test_a_cast_that_is_not_executed_does_not_excuse_a_node_beyond_rounding() -> None:
    _, trace = followed_to("float32", wrong=True)
    widest = measured(diverging(3e-4, 1e-8))
    found = verdict(measured(diverging(1e-8, 3e-4)), widest=widest, executed=AGREES, followed=trace)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.NODE)


def test_a_mask_of_rounded_values_is_amplified_rounding_though_no_nudge_met_the_step() -> None:
    default, trace = followed_to("bool", wrong=False)
    found = verdict(default, followed=trace, criterion=Criterion((0.0, 0.0)))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING


def test_how_much_of_well_rounded_values_is_left_of_a_sum_that_cancels_is_chance() -> None:
    """The mean of a batch norm's output is zero: each side's rounding is all that there is of it."""
    sums = NodeTrace("norm", "aten.batch_norm", "", ("x",), True, True, 2.0, 1e-7)
    mean = NodeTrace("mean", "aten.mean", "", ("norm",), True, gain=1e7, difference=1.0)
    view = NodeTrace("flat", "aten.view", "", ("mean",), True, difference=1.0)
    trace = Trace((sums, mean, view), ends("flat"))
    default = measured(diverging(3.5e-9, 1.1e-7, scale=2e-7))
    assert verdict(default, followed=trace).kind is VerdictClass.AMPLIFIED_ROUNDING
    assert verdict(default).kind is VerdictClass.COMPILED_WORSE, "nothing is known of what it sums"
    more = measured(diverging(3.5e-9, 1e-4, scale=2e-7))
    assert verdict(more, followed=trace).kind is VerdictClass.COMPILED_WORSE, "more than its terms round"


def test_where_torch_leaves_the_node_undefined_nobody_is_wrong() -> None:
    default, trace = followed_to("int32", wrong=True)
    found = verdict(default, followed=trace, undefined={"sin": "a cast of 3e+09 to int32"})
    assert (found.kind, found.rule) == (VerdictClass.UNDEFINED, Rule.UNDEFINED_NODE)
    elsewhere = verdict(default, followed=trace, undefined={"other": "a cast"})
    assert elsewhere.kind is VerdictClass.COMPILED_WORSE


def test_an_operator_that_writes_undeclared_makes_nobody_wrong_where_it_moves_all_that_diverges() -> None:
    default = measured(diverging(0.0, 1.0))
    (path,) = [output.path for output in default.outputs]
    told = "the operator own.bump writes into `x`, which its schema says it only reads"
    found = verdict(default, undeclared=told, undeclared_paths=(path,))
    assert (found.kind, found.rule) == (VerdictClass.UNDEFINED, Rule.DECLARATION)
    assert words(found.reason).startswith(told)
    assert verdict(default, undeclared=told).kind is VerdictClass.COMPILED_WORSE


def test_a_cast_that_compiled_leaves_out_is_seen_by_a_reference_that_obeys_it() -> None:
    default = measured(diverging(1e-8, 3e-4))
    unobeyed = measured(diverging(3e-4, 1e-8))
    found = verdict(default, widest=unobeyed, executed=AGREES)
    assert (found.kind, found.rule) == (VerdictClass.ELIDED_ROUNDING, Rule.CASTS)
    assert verdict(default, widest=default, executed=AGREES).kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize("shown", [{"executed": AGREES}, {"left_out": AGREES}])
def test_without_a_reference_a_cast_that_is_left_out_is_shown_by_running_with_or_without_it(
    shown: dict[str, Measurement]
) -> None:
    default = measured(off_by(1.0))
    ulp = measured(off_by(1e-7))
    assert verdict(default, nudged=ulp).kind is VerdictClass.COMPILED_WORSE
    found = verdict(default, nudged=ulp, **shown)
    assert (found.kind, found.rule) == (VerdictClass.ELIDED_ROUNDING, Rule.CASTS)
    not_shown = dict.fromkeys(shown, measured(off_by(0.5)))
    assert verdict(default, nudged=ulp, **not_shown).kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize(
    ("dtype", "flips", "expected"),
    [("float32", 1, "unresolved"), ("int32", 1, "elided-rounding"), ("int32", 60, "unresolved")],
)
def test_what_executed_casts_mend_is_not_known_to_be_theirs_where_eager_without_them_is_another(
    dtype: str, flips: int, expected: str
) -> None:
    """As a sine that is wrong for values which no cast has rounded."""
    default = measured(off_by(1.0, dtype=dtype, n_diff=60))
    left_out = measured(off_by(1.0, dtype=dtype, n_diff=flips))
    assert verdict(default, executed=AGREES, left_out=left_out).kind.value == expected


@pytest.mark.parametrize(
    ("unexplained", "expected"), [(0, "elided-rounding"), (1, "compiled-worse"), (None, "compiled-worse")]
)
def test_what_executed_casts_leave_is_rounding_where_rounding_moves_each_such_element_as_far(
    unexplained: int | None, expected: str
) -> None:
    """Of values that lie at a tie of the narrower dtype, an ulp before the cast decides."""
    widest = measured(diverging(3e-4, 1e-8))
    left = measured(off_by(1e-3, n_diff=1, unexplained=unexplained, unmoved=unexplained))
    found = verdict(
        measured(diverging(1e-8, 3e-4)), widest=widest, executed=left, nudged=measured(off_by(1e-3))
    )
    assert found.kind.value == expected


def test_of_many_elements_that_executed_casts_leave_none_is_forgiven_as_missed() -> None:
    """However few: an element that is wrong is as one that a run missed."""
    widest = measured(diverging(3e-4, 1e-8))
    left = measured(off_by(0.3, n_diff=16_000, unexplained=1, unmoved=1))
    default = measured(diverging(1e-8, 3e-4))
    found = verdict(default, widest=widest, executed=left, nudged=measured(off_by(1e-3)))
    assert found.kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize("executed", [None, CRASH, measured(off_by(1.0))])
def test_a_cast_is_not_said_to_be_left_out_where_executing_it_does_not_mend_the_output(
    executed: Measurement | None
) -> None:
    widest = measured(diverging(3e-4, 1e-8))
    found = verdict(measured(diverging(1e-8, 3e-4)), widest=widest, executed=executed)
    assert found.kind is VerdictClass.COMPILED_WORSE


def test_a_cast_is_not_known_to_be_all_where_executing_it_leaves_what_an_ulp_at_each_node_may_make() -> None:
    widest, nudged = measured(diverging(3e-4, 1e-8)), measured(off_by(1.0))

    def kind(left: float, numel: int) -> VerdictClass:
        executed, default = measured(off_by(left)), measured(replace(diverging(1e-8, 3e-4), numel=numel))
        return verdict(default, widest=widest, executed=executed, nudged=nudged).kind

    assert [kind(left, 64) for left in (0.0, 0.5, 2.0)] == [
        VerdictClass.ELIDED_ROUNDING, VerdictClass.UNRESOLVED, VerdictClass.COMPILED_WORSE
    ]
    assert kind(0.5, 1) is VerdictClass.ELIDED_ROUNDING, "of one element it is the same element"


def test_an_output_that_undefined_values_do_not_explain_is_judged_apart() -> None:
    codes = off_by(200.0, path="output[0]", dtype="int8")
    peak = off_by(6.0, 2.0, "output[1]", dtype="int64", shape=(), numel=1, n_diff=1)
    undefined = {"undefined": {"to": "a cast of 770 to int8"}, "undefined_paths": ("output[0]",)}
    found = verdict(measured(codes, peak), **undefined)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.EXACT_DTYPE)
    assert words(found.reason).startswith("output[1]: 1 of 1 elements differ")
    assert [signature.path for signature in found.signatures] == ["output[1]"], "the search is about that one"
    assert verdict(measured(codes), **undefined).kind is VerdictClass.UNDEFINED


def test_one_element_that_is_large_does_not_excuse_the_others() -> None:
    """Its error makes the error of the whole; each of the others is judged at its own size."""
    one = diverging(190.0, 200.0, scale=5e11)
    exact = replace(one, steps_error_eager=0.1, steps_error_compiled=3000.0, steps_rounding=0.1)
    assert verdict(measured(one)).kind is VerdictClass.EQUALLY_ACCURATE
    assert verdict(measured(exact)).kind is VerdictClass.COMPILED_WORSE
    few = replace(one, steps_error_eager=0.5, steps_error_compiled=2.0, steps_rounding=0.1)
    assert verdict(measured(few)).kind is VerdictClass.EQUALLY_ACCURATE


def runs_again(unlike: int, **fields: Any) -> Repeated:
    """64 runs, of which so many are off from eager by `off` and from the first run by `moved`."""
    eager, first = off_by(fields["off"]), off_by(fields["moved"])
    other = (Rerun(unlike, measured(eager), measured(first)),) if unlike else ()
    return Repeated(64, other)


def wrong_again(error_eager: float, error_compiled: float) -> Repeated:
    """64 runs, no two of them alike, with these errors against the reference."""
    run = Rerun(63, measured(diverging(error_eager, error_compiled)), measured(off_by(1e-2)))
    return Repeated(64, (run,))


def test_runs_that_differ_from_each_other_and_are_all_wrong_are_a_steady_divergence() -> None:
    found = verdict(measured(diverging(0.0, 1.0)), repeated=wrong_again(0.0, 0.5))
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.EVERY_RUN)
    assert found.figures == {"runs": 64.0, "unlike_first": 63.0}
    assert words(found.reason).endswith(
        "its runs differ from each other too (of 64 runs 63 gave other bits than the first), and none agrees "
        "with eager"
    )
    assert found.signatures, "the search goes by its outcome"


def test_runs_that_differ_from_each_other_by_rounding_prove_nothing() -> None:
    """Racing sums: every run is off, and none is farther from the reference than eager."""
    for first, others in [((1.0, 1.0), (0.9, 1.0)), ((0.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (0.0, 1.0))]:
        found = verdict(measured(diverging(*first)), repeated=wrong_again(*others))
        assert (found.kind, found.rule) == (VerdictClass.NONDETERMINISTIC, Rule.COMPILED_REPEATED)
        assert "of 64 runs 63 gave other bits than the first, and 0 agree with eager" in words(found.reason)


def test_without_a_reference_varying_runs_are_wrong_where_one_ulp_leaves_eager_in_place() -> None:
    default, repeated = measured(off_by(1e-2)), runs_again(63, off=2e-2, moved=1e-2)
    steady = verdict(default, repeated=repeated)
    assert (steady.kind, steady.rule) == (VerdictClass.COMPILED_WORSE, Rule.EVERY_RUN)
    sensitive = verdict(default, repeated=repeated, nudged=measured(FAR_MOVED))
    assert sensitive.kind is VerdictClass.NONDETERMINISTIC


def test_runs_that_differ_from_each_other_within_the_tolerance_are_alike() -> None:
    near = verdict(measured(diverging(0.0, 1.0)), repeated=runs_again(9, off=1e-2, moved=1e-9))
    assert (near.kind, near.rule) == (VerdictClass.COMPILED_WORSE, Rule.ACCURACY)


def test_one_run_of_many_that_agrees_or_diverges_is_enough_to_doubt_all() -> None:
    diverging_once = verdict(AGREES, repeated=runs_again(1, off=1e-2, moved=1e-2))
    assert diverging_once.kind is VerdictClass.NONDETERMINISTIC
    assert "63 agree with eager" in words(diverging_once.reason)
    agreeing_once = verdict(measured(diverging(0.0, 1.0)), repeated=runs_again(1, off=1e-9, moved=1e-2))
    assert agreeing_once.kind is VerdictClass.NONDETERMINISTIC
    assert "1 agree with eager" in words(agreeing_once.reason)
    assert verdict(AGREES, repeated=runs_again(9, off=1e-9, moved=1e-2)).kind is VerdictClass.AGREES


def test_moving_by_some_ulp_beyond_a_strict_tolerance_is_not_amplification() -> None:
    strict = Criterion((0.0, 0.0))
    moved = off_by(3e-7, n_diff=100)
    found = verdict(measured(diverging(0.9, 1.0)), nudged=measured(moved), criterion=strict)
    assert found.kind is VerdictClass.EQUALLY_ACCURATE


def test_complex_outputs_have_ulp_too() -> None:
    strict = Criterion((0.0, 0.0))
    moved = off_by(3e-7, n_diff=100, dtype="complex64")
    default = diverging(0.9, 1.0, dtype="complex64")
    found = verdict(measured(default), nudged=measured(moved), criterion=strict)
    assert found.kind is VerdictClass.EQUALLY_ACCURATE


def test_amplification_in_another_output_explains_nothing() -> None:
    default = measured(diverging(0.9, 1.0), output("output[1]"))
    nudged = measured(output(), off_by(0.5, path="output[1]"))
    assert verdict(default, nudged=nudged).kind is VerdictClass.EQUALLY_ACCURATE


def test_an_element_that_is_infinite_where_the_reference_is_not_is_worse() -> None:
    wrong = diverging(0.0, 0.0, n_diff=1, nonfinite_mismatches=1, reference_nonfinite_compiled=1)
    found = verdict(measured(wrong))
    assert found.kind is VerdictClass.COMPILED_WORSE
    assert "not finite" in words(found.reason)
    right = replace(wrong, reference_nonfinite_compiled=0, reference_nonfinite_eager=1)
    assert verdict(measured(right)).kind is VerdictClass.COMPILED_BETTER


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape_compiled": (1,)},
        {"dtype_compiled": "float64"},
        {"alias_mismatch": "a float instead of a Tensor"},
    ],
)
def test_a_wrong_shape_or_dtype_needs_no_reference_to_be_worse(wrong: dict[str, Any]) -> None:
    assert verdict(measured(output(**wrong))).kind is VerdictClass.COMPILED_WORSE


def test_without_a_reference_nobody_is_right() -> None:
    found = verdict(measured(diverging(None, None)), nudged=measured(off_by(1e-4)))
    assert found.kind is VerdictClass.UNRESOLVED
    assert "no float64 reference" in words(found.reason)
    assert found.signatures


def test_without_a_reference_what_no_ulp_makes_is_more_than_rounding() -> None:
    found = verdict(measured(diverging(None, None)))
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.BEYOND_NUDGES)
    few = measured(replace(diverging(None, None), n_diff=3))
    assert verdict(few).kind is VerdictClass.UNRESOLVED, "those at a step may not have been met"


def test_without_a_reference_a_few_flips_that_one_ulp_makes_too_are_amplified_rounding() -> None:
    nudged = measured(off_by(1.0, n_diff=3))
    few, many = diverging(None, None, n_diff=3), diverging(None, None, n_diff=90)
    assert verdict(measured(few), nudged=nudged).kind is VerdictClass.AMPLIFIED_ROUNDING
    assert verdict(measured(many), nudged=nudged).kind is VerdictClass.UNRESOLVED


def test_a_float64_program_is_its_own_reference_and_rounding_in_it_is_no_fault() -> None:
    strict = Criterion((0.0, 0.0))

    def kind(diff: float, nudged: Measurement = AGREES) -> VerdictClass:
        own = off_by(diff, dtype="float64", n_diff=90, rms_error_eager=0.0, rms_error_compiled=diff)
        return verdict(measured(own), nudged=nudged, criterion=strict).kind

    assert kind(1e-15) is VerdictClass.EQUALLY_ACCURATE
    assert kind(1e-3) is VerdictClass.COMPILED_WORSE
    assert kind(1e-3, measured(off_by(1e-2, dtype="float64"))) is VerdictClass.AMPLIFIED_ROUNDING
    own = off_by(1e-3, dtype="float64", n_diff=90, rms_error_eager=0.0, rms_error_compiled=1e-3)
    moved = measured(off_by(1e-2, dtype="float64"))
    beyond = replace(ends_in(False, 1e-3).nodes[0], beyond=True)
    trace = Trace((beyond,), {"output[0]": beyond.name})
    found = verdict(measured(own), nudged=moved, criterion=strict, followed=trace)
    assert found.kind is VerdictClass.UNRESOLVED, "nothing finer tells which is nearer"


def test_one_output_that_is_worse_decides_beside_one_that_is_better() -> None:
    default = measured(diverging(1.0, 0.0), diverging(0.0, 1.0, path="output[1]"))
    assert verdict(default).kind is VerdictClass.COMPILED_WORSE


def test_an_output_that_agrees_has_no_say() -> None:
    agreeing = output("output[1]", rms_error_eager=1e-9, rms_error_compiled=1e-7)
    assert verdict(measured(diverging(1.0, 1.0), agreeing)).kind is VerdictClass.EQUALLY_ACCURATE


def ends_in(beyond: bool, difference: float) -> Trace:
    """Two nodes: one that rounds otherwise, or is wrong, and one that makes `difference` of it."""
    first = NodeTrace("erf", "aten.erf", "", (), True, True, 9.0, 1e-6, beyond, None, 1e-6)
    last = NodeTrace("ceil", "aten.ceil", "", ("erf",), True, gain=3e5, difference=difference)
    return Trace((first, last), ends("ceil"))


def test_rounding_at_every_node_that_grows_is_amplified_rounding_without_any_nudge() -> None:
    found = verdict(measured(diverging(0.9, 1.0)), followed=ends_in(False, 0.5))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING
    assert "at most 9 ulp" in words(found.reason) and "`ceil` (aten.ceil), 3e+05 times" in words(found.reason)


def test_more_than_rounding_at_a_node_is_no_amplified_rounding_though_nudges_move_eager() -> None:
    default, nudged = measured(diverging(0.9, 1.0)), measured(FAR_MOVED)
    assert verdict(default, nudged=nudged).kind is VerdictClass.AMPLIFIED_ROUNDING
    followed = ends_in(True, 0.5)
    assert verdict(default, nudged=nudged, followed=followed).kind is VerdictClass.EQUALLY_ACCURATE


def test_an_error_larger_than_eagers_that_rounding_explains_is_not_said_to_be_as_small() -> None:
    own = diverging(1e-7, 3e-7, steps_error_eager=0.5, steps_error_compiled=1.5)
    found = verdict(measured(own), followed=ends_in(False, 2e-6), criterion=Criterion((0.0, 0.0)))
    assert found.kind is VerdictClass.EQUALLY_ACCURATE
    assert words(found.reason) == (
        "output[0]: compiled is no farther than rounding explains from the float64 reference "
        "(rms error 3e-07, eager 1e-07)"
    )


def test_rounding_that_did_not_grow_is_not_amplified() -> None:
    found = verdict(measured(diverging(0.9, 1.0)), nudged=measured(FAR_MOVED), followed=ends_in(False, 2e-6))
    assert found.kind is VerdictClass.EQUALLY_ACCURATE


def test_an_error_of_another_order_is_worse_though_every_node_that_was_followed_rounds_well() -> None:
    """Returning values can hide what the compiler does with them when they are not."""
    found = verdict(measured(diverging(1e-6, 1e3)), followed=ends_in(False, 0.5))
    assert found.kind is VerdictClass.COMPILED_WORSE


def test_outputs_that_were_not_followed_are_told_by_the_nudges() -> None:
    default = measured(output(), diverging(0.9, 1.0, path="output[1]"))
    nudged = measured(output(), off_by(0.5, path="output[1]", n_diff=100))
    found = verdict(default, nudged=nudged, followed=ends_in(True, 0.5))
    assert found.kind is VerdictClass.AMPLIFIED_ROUNDING


def test_a_class_is_given_by_an_experiment_that_shows_it_alone() -> None:
    for kind, rule in itertools.product(VerdictClass, Rule):
        if kind is VerdictClass.AGREES or rule in EXPERIMENTS[kind]:
            continue
        with pytest.raises(NoExperiment):
            decided(kind, Message("so"), rule)
    assert EXPERIMENTS.keys() == set(VerdictClass)


def test_one_module_puts_verdicts_together() -> None:
    package = Path(bisector.__file__).parent
    made = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Verdict"
    }
    assert made == {"core/verdict.py"}


def small(diff: float, scale: float, path: str = "output[0]") -> OutputMeasurement:
    """An output of that largest value, all elements off by as much."""
    return off_by(
        diff, scale, path, scale=scale, n_diff=90, rms_error_eager=scale * 1e-8, rms_error_compiled=diff
    )


def test_an_output_that_is_smaller_than_the_tolerance_is_held_to_its_own_size() -> None:
    lost, moved = measured(small(6e-9, 6e-9)), measured(small(6e-16, 6e-9))
    found = beneath_tolerance(Evidence(lost, AGREES, AGREES, (moved,), ()), Criterion())
    ((rtol, atol),) = found["output[0]"]
    assert rtol == 1.3e-6 and 6e-13 < atol < 1e-12
    assert verdict(lost, nudged=moved).kind is VerdictClass.AGREES
    held = Criterion(by_path=found)
    assert verdict(lost, nudged=moved, criterion=held).kind is VerdictClass.COMPILED_WORSE


@pytest.mark.parametrize(
    ("one", "moved", "criterion"),
    [
        pytest.param(small(6e-9, 6e-9), small(6e-9, 6e-9), Criterion(), id="rounding moves it as far"),
        pytest.param(small(6e-13, 6e-9), small(6e-16, 6e-9), Criterion(), id="off by a thousandth"),
        pytest.param(small(6e-9, 6e-9), small(6e-16, 6e-9), Criterion((1e-6, 1e-6)), id="the user says so"),
        pytest.param(
            small(6e-9, 6e-9), small(6e-16, 6e-9), Criterion(by_path={"*": ((1e-6, 1e-6),)}),
            id="the script says so",
        ),
    ],
)  # fmt: skip
def test_no_other_output_is(one: OutputMeasurement, moved: OutputMeasurement, criterion: Criterion) -> None:
    evidence = Evidence(measured(one), AGREES, AGREES, (measured(moved),), ())
    assert beneath_tolerance(evidence, criterion) == {}


@pytest.mark.parametrize(("compiled", "eager", "held"), [(17, 1, True), (17, 2, False), (16, 0, False)])
def test_small_elements_beside_large_ones_are_held_to_their_own_size_where_most_are_off_in_compiled_alone(
    compiled: int, eager: int, held: bool
) -> None:
    lost = replace(off_by(6e-8, n_diff=90), far=FarElements(compiled, eager, 5e-8))
    evidence = Evidence(measured(lost), AGREES, AGREES, (measured(off_by(1e-7)),), ())
    expected = {"output[0]": ((1.3e-6, 2.5e-8),)} if held else {}
    assert beneath_tolerance(evidence, Criterion()) == expected
    assert beneath_tolerance(evidence, Criterion((1e-6, 1e-6))) == {}, "the user says so"


def test_a_small_output_beside_a_large_one_may_be_what_cancels_in_it() -> None:
    beside = [small(6e-9, 6e-9), output("output[1]")]
    assert beneath_tolerance_in_calls([beside], Criterion()) == {}
    assert "float32" in beneath_tolerance_in_calls([beside[:1]], Criterion())
    gradient = [small(6e-9, 6e-9), output("grad[0]")]
    assert "float32" in beneath_tolerance_in_calls([gradient], Criterion())
