"""A script call by call: the place where it first differs, and how each call stands to eager."""

from __future__ import annotations

import math
from dataclasses import replace

from bisector.core.by_call import by_call
from bisector.core.criterion import Criterion
from bisector.core.evidence import Evidence
from bisector.core.model import Measurement, OutputMeasurement
from bisector.core.notes import CallName
from bisector.core.outcome import Outcome
from bisector.core.program import CompiledCall, PlainRun
from bisector.core.reasons import SILENT
from bisector.core.script_verdict import NOT_ASKED, EqualInputs
from bisector.core.shown import ScriptResult
from bisector.core.standing import Place, Value


def value(path: str, off: float = 0.0) -> OutputMeasurement:
    return OutputMeasurement(
        0, path, "float32", (4,), 4, n_diff=4 if off else 0, max_abs=off, scale=2.0,
        frontier=((1.0, off),) if off else (),
    )  # fmt: skip


def call(index: int, *outputs: OutputMeasurement, beside: OutputMeasurement | None = None) -> CompiledCall:
    evidence = None if beside is None else Evidence(Measurement((beside,)), None, None, (), ())
    return CompiledCall(index, "step", outputs, beside=evidence)


def differs_at(index: int, path: str) -> ScriptResult:
    return ScriptResult(Outcome.FAIL, SILENT, index, path=path)


LOSS, GRADIENT, WEIGHT = "output[0]", "grad[layers.1.weight]", "state[layers.1.weight]"
EAGER = PlainRun((CompiledCall(0, "step"), CompiledCall(1, "step")))


def test_each_call_says_how_far_what_it_returns_and_leaves_is_from_eager() -> None:
    first = call(0, value(LOSS), value(GRADIENT, 1e-7))
    second = call(1, value(LOSS, 0.5), value(GRADIENT), value(WEIGHT, 1.0))
    run = PlainRun((first, second))
    found = by_call(EAGER, run, differs_at(1, LOSS), NOT_ASKED, Criterion())
    assert found.place == Place(CallName(2, "step"), 2, (Value(LOSS),))
    one, two = found.standings
    assert (one.outputs, one.gradients, one.left) == (0.0, 5e-8, None)
    assert (two.outputs, two.gradients, two.left) == (0.25, 0.0, 0.5)
    assert one.differs is two.differs is None


def test_the_place_is_the_one_on_equal_inputs_where_that_is_known() -> None:
    run = PlainRun((call(0, value(LOSS)), call(1, value(LOSS, 0.5))))
    beside = (call(0, beside=value(GRADIENT, 0.5)), call(1, beside=value(LOSS)))
    equal = EqualInputs(beside[0], calls=beside)
    found = by_call(EAGER, run, differs_at(1, LOSS), equal, Criterion())
    assert found.place == Place(CallName(1, "step"), 2, (Value(GRADIENT),))
    assert [one.differs for one in found.standings] == [GRADIENT, ""]


def test_what_it_returns_and_what_it_leaves_behind_are_both_named() -> None:
    outputs = (value(LOSS), value("output[1]", 0.5), value("argument[0].seen", 1.0), value(WEIGHT, 1.0))
    evidence = Evidence(Measurement(outputs), None, None, (), ())
    beside = CompiledCall(0, "step", outputs, beside=evidence)
    equal = EqualInputs(beside, calls=(beside,))
    found = by_call(EAGER, PlainRun((beside,)), differs_at(0, "output[1]"), equal, Criterion())
    assert found.place is not None
    assert [one.path for one in found.place.values] == ["output[1]", "argument[0].seen"]
    assert not any(one.by_compiled for one in found.place.values)


def test_an_argument_that_eager_was_seen_to_leave_is_changed_by_compiled() -> None:
    argument = "argument[1]"
    beside = call(0, beside=value(argument, 0.5))
    run = PlainRun((call(0, value(argument, 0.5)),))
    for kept, by_compiled in (((), False), (("argument 0",), False), (("argument 0", "argument 1"), True)):
        eager = PlainRun((CompiledCall(0, "step", kept=kept),))
        equal = EqualInputs(beside, calls=(beside,))
        found = by_call(eager, run, differs_at(0, argument), equal, Criterion())
        assert found.place is not None and found.place.values[0].by_compiled is by_compiled


def test_an_argument_is_named_as_the_function_names_it() -> None:
    eager = PlainRun((CompiledCall(0, "step", arguments=("batch['x']", "w")),))
    for path, name in (("grad[argument 1]", "w"), ("argument[0].seen", "batch['x']"), ("argument[2]", "")):
        run = PlainRun((call(0, value(path, 0.5)),))
        found = by_call(eager, run, differs_at(0, path), NOT_ASKED, Criterion())
        assert found.place is not None and found.place.values[0].argument == name
    unknown = PlainRun((CompiledCall(0, "other", arguments=("x",)),))
    run = PlainRun((call(0, value("argument[0]", 0.5)),))
    found = by_call(unknown, run, differs_at(0, "argument[0]"), NOT_ASKED, Criterion())
    assert found.place is not None and found.place.values[0].argument == ""


def test_of_another_form_is_infinitely_far() -> None:
    shorter = OutputMeasurement(0, LOSS, "float32", (4,), 4, shape_compiled=(3,))
    found = by_call(EAGER, PlainRun((call(0, shorter),)), differs_at(0, LOSS), NOT_ASKED, Criterion())
    assert found.standings[0].outputs == math.inf


def test_a_script_that_differs_outside_its_calls_has_no_place() -> None:
    shown = ScriptResult(Outcome.FAIL, SILENT, path="line[2]")
    assert by_call(EAGER, PlainRun((call(0, value(LOSS)),)), shown, NOT_ASKED, Criterion()).place is None


def test_a_value_that_eager_does_not_have_is_told_with_what_it_is() -> None:
    mismatch = "a Tensor of zeros that eager does not have"
    lacking = OutputMeasurement(0, GRADIENT, "Tensor", (), 1, alias_mismatch=mismatch)
    run = PlainRun((call(0, value(LOSS), lacking),))
    found = by_call(EAGER, run, differs_at(0, GRADIENT), NOT_ASKED, Criterion())
    assert found.place is not None
    assert found.place.values == (Value(GRADIENT, mismatch=mismatch),)
    named = replace(lacking, path=LOSS, alias_mismatch="'random state 7f' instead of 'random state 4e'")
    of_output = by_call(EAGER, PlainRun((call(0, named),)), differs_at(0, LOSS), NOT_ASKED, Criterion())
    assert of_output.place is not None and of_output.place.values == (Value(LOSS),)
