"""Which tolerance an output is held to."""

from __future__ import annotations

from typing import Any

import pytest

from bisector.core.criterion import DTYPE_TOLERANCES, Criterion
from bisector.core.judge import judge, removed_fraction
from bisector.core.model import Measurement, OutputMeasurement
from tests.core.measurements import measured, off_by, output


def test_the_defaults_are_those_of_assert_close() -> None:
    torch = pytest.importorskip("torch")
    for dtype, tolerance in DTYPE_TOLERANCES.items():
        assert torch.testing._comparison.default_tolerances(getattr(torch, dtype)) == tolerance


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float8_e4m3fn", "float4_e2m1fn_x2"])
def test_what_has_no_rounding_of_its_own_is_compared_exactly(dtype: str) -> None:
    assert Criterion().tolerance("output[0]", dtype) == (0.0, 0.0)


def test_the_command_line_goes_before_the_script_and_the_script_before_the_dtype() -> None:
    by_path, by_dtype = {"output[0]": ((1e-2, 1e-3),)}, {"float32": ((1e-1, 1e-1),)}
    script = Criterion(by_path=by_path, by_dtype=by_dtype)
    assert script.tolerance("output[0]", "float32") == (1e-2, 1e-3)
    assert script.tolerance("output[1]", "float32") == (1e-1, 1e-1)
    assert script.tolerance("output[1]", "float64") == DTYPE_TOLERANCES["float64"]
    line = Criterion((0.5, 0.5), by_path, by_dtype)
    assert {line.tolerance(p, d) for p in ("output[0]", "grad[x]") for d in ("int8", "float32")} == {
        (0.5, 0.5)
    }


def test_a_smaller_graph_is_held_to_the_tolerance_that_the_whole_diverged_under() -> None:
    whole = Criterion(
        by_path={"output[1]": ((0.0, 0.0),)}, signed_zero=True, source="the script's own comparison"
    )
    small = whole.for_reduced_graph([("output[1]", "float32")])
    assert small.tolerance("output[0]", "float32") == (0.0, 0.0)
    assert small.tolerance("output[1]", "bfloat16") == DTYPE_TOLERANCES["bfloat16"]
    assert small.signed_zero
    assert small.source == whole.source


def test_of_several_tolerances_for_one_output_each_must_hold() -> None:
    loose, tight = (1e-3, 1e-3), (1e-5, 1e-2)  # neither is the stricter: the one of large, the other of small
    criterion = Criterion(by_path={"output[0]": (tight, loose)})
    for size, difference, outcome in ((1.0, 5e-3, "FAIL"), (1e6, 100.0, "FAIL"), (1.0, 1e-3, "PASS")):
        output = OutputMeasurement(0, "output[0]", "float32", (1,), 1, frontier=((size, difference),))
        assert judge(Measurement((output,)), criterion).outcome.value == outcome


def test_a_tolerance_that_is_broken_comes_first() -> None:
    output = OutputMeasurement(0, "output[0]", "float32", (1,), 1, frontier=((1.0, 5e-3),))
    criterion = Criterion(by_path={"*": ((1e-5, 1e-2), (1e-3, 1e-3))})
    assert criterion.tolerance("output[0]", "float32") == (1e-5, 1e-2)
    assert criterion.failing_tolerance_first([output]).tolerance("output[0]", "float32") == (1e-3, 1e-3)


def test_a_smaller_graph_is_held_to_all_that_outputs_of_a_dtype_diverged_under() -> None:
    whole = Criterion(by_path={"output[0]": ((1e-3, 1e-3),), "output[1]": ((1e-6, 1e-6),)})
    small = whole.for_reduced_graph([("output[0]", "float32"), ("output[1]", "float32")])
    assert small.tolerances("output[0]", "float32") == ((1e-3, 1e-3), (1e-6, 1e-6))


def test_the_tolerance_of_the_command_line_holds_for_smaller_graphs_too() -> None:
    small = Criterion((0.25, 0.5)).for_reduced_graph([("output[0]", "float32")])
    assert small.tolerance("output[3]", "int64") == (0.25, 0.5)


ULP, COSINE = Criterion(max_ulp=4), Criterion(cosine=0.999)


@pytest.mark.parametrize(
    ("criterion", "fields", "outcome"),
    [
        (ULP, {"max_ulp": 4}, "PASS"),
        (ULP, {"max_ulp": 5}, "FAIL"),
        (ULP, {"dtype": "int64", "max_ulp": None}, "FAIL"),
        (ULP, {"dtype": "complex64", "max_ulp": 1}, "FAIL"),
        (ULP, {"max_ulp": 1, "nonfinite_mismatches": 1}, "FAIL"),
        (COSINE, {"cosine": 0.999}, "PASS"),
        (COSINE, {"cosine": 0.998}, "FAIL"),
        (COSINE, {"dtype": "uint8", "cosine": None}, "FAIL"),
    ],
)
def test_another_measure_holds_in_the_place_of_tolerances(
    criterion: Criterion, fields: dict[str, Any], outcome: str
) -> None:
    assert judge(measured(off_by(1.0, **fields)), criterion).outcome.value == outcome
    assert judge(measured(output()), criterion).outcome.value == "PASS"
    small = criterion.for_reduced_graph([("output[0]", "float32")])
    assert judge(measured(off_by(1.0, **fields)), small).outcome.value == outcome


def test_what_remains_is_counted_in_the_measure() -> None:
    before, after = (measured(off_by(1.0, max_ulp=steps)) for steps in (104, 29))
    assert removed_fraction(before, after, ULP) == 0.75
    before, after = (measured(off_by(1.0, cosine=cosine)) for cosine in (0.799, 0.899))
    assert removed_fraction(before, after, COSINE) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("criterion", "near", "far"),
    [(ULP, (1.0, 1.0 + 4 * 2**-23), (1.0, 1.0 + 5 * 2**-23)), (COSINE, (3.0, 3.1), (3.0, -3.0))],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_the_assertion_of_a_repro_says_what_the_judge_says(
    criterion: Criterion, near: tuple[float, float], far: tuple[float, float], dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    measure = pytest.importorskip("bisector.inductor.measure")
    for e, a in (near, far, (1.0, 1.0), (float("nan"), float("nan")), (-0.0, 0.0), (0.0, 1.0)):
        if dtype == "int64" and e != e:
            continue
        eager, compiled = (torch.tensor([v, 1.0]).to(getattr(torch, dtype)) for v in (e, a))
        agrees = judge(measured(measure.compare(0, "output[0]", eager, compiled)), criterion)
        try:
            exec(criterion.assertion(), {"torch": torch, "a": compiled, "e": eager})
            said = "PASS"
        except AssertionError:
            said = "FAIL"
        assert agrees.outcome.value == said, (dtype, e, a)


@pytest.mark.parametrize("criterion", [ULP, COSINE])
def test_where_steps_or_an_angle_are_allowed_bits_may_differ(criterion: Criterion) -> None:
    assert not criterion.is_exact(off_by(1.0))
    assert criterion.is_exact(off_by(1.0, dtype="uint8"))
