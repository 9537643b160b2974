"""What a plain run of a script shows beside the same with compilation off."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.judge import Criterion
from bisector.core.program import CompiledCall, PlainRun, apart, shown
from tests.core.measurements import off_by, output

AGREES = CompiledCall(0, "f", (output(),))
EAGER = PlainRun((CompiledCall(0, "f"), CompiledCall(1, "g")), (True, True), status=0)
COMPILED = PlainRun((AGREES, CompiledCall(1, "g", (output(),))), (True, True), status=0)


def test_two_runs_that_agree_show_nothing() -> None:
    assert not shown(EAGER, COMPILED, Criterion()).diverges


def test_the_first_call_whose_values_differ_is_named() -> None:
    calls = (AGREES, CompiledCall(1, "g", (off_by(1.0),)), CompiledCall(2, "g", (off_by(2.0),)))
    eager = replace(EAGER, calls=(*EAGER.calls, CompiledCall(2, "g")))
    found = shown(eager, PlainRun(calls, status=0), Criterion())
    assert found.call == 1
    assert found.reason.startswith("call 2 of 3 (`g`): output[0]: largest difference 1 ")


def test_a_call_that_raises_on_one_side_only_is_named_with_the_side() -> None:
    compiled = replace(COMPILED, calls=(CompiledCall(0, "f", raised="TypeError: no"),))
    assert "compiled raises TypeError: no" in shown(EAGER, compiled, Criterion()).reason
    assert "eager raises TypeError: no" in shown(compiled, COMPILED, Criterion()).reason


def test_a_comparison_of_the_script_that_fails_compiled_alone_counts_where_values_show_nothing() -> None:
    found = shown(EAGER, replace(COMPILED, agreed=(True, False)), Criterion())
    assert found.reason == "its comparison 2 of 2, which fails compiled alone"
    both = replace(EAGER, agreed=(True, False))
    assert not shown(both, replace(COMPILED, agreed=(True, False)), Criterion()).diverges


def test_an_exit_status_or_an_exception_that_differs_counts_and_its_message_does_not() -> None:
    assert "exit status 3" in shown(EAGER, replace(COMPILED, status=3), Criterion()).reason
    one = replace(EAGER, status=1, ended="AssertionError: 0.1")
    assert not shown(one, replace(COMPILED, status=1, ended="AssertionError: 0.2"), Criterion()).diverges
    assert shown(one, replace(COMPILED, status=1, ended="IndexError: 0.2"), Criterion()).diverges


def test_of_what_is_printed_words_count_and_numbers_beyond_what_a_sum_is_off() -> None:
    eager = replace(EAGER, printed=("loss 0.123456", "max 0 BUG", "at 3 of 7", "nan"))
    compiled = replace(COMPILED, printed=("loss 0.123457", "max 0 OK", "at 5 of 7", "nan"))
    assert apart(eager, compiled) == (1, 2)
    assert not shown(eager, compiled, Criterion()).diverges
    found = shown(eager, compiled, Criterion(), lines=(2, 3))
    assert found.reason == "line 3 of its output: it prints `at 5 of 7`, with compilation off `at 3 of 7`"


def test_a_run_that_had_no_time_to_end_shows_nothing() -> None:
    assert not shown(EAGER, replace(COMPILED, status=None, calls=()), Criterion()).diverges


def test_a_line_that_one_run_alone_prints_is_a_difference() -> None:
    eager, compiled = replace(EAGER, printed=("a",)), replace(COMPILED, printed=("a", "BUG"))
    assert apart(eager, compiled) == (1,)
    reason = shown(eager, compiled, Criterion(), (1,)).reason
    assert reason.endswith("it prints `BUG`, with compilation off nothing")


def test_what_is_printed_on_stderr_counts_too() -> None:
    eager, compiled = replace(EAGER, said=("OK",)), replace(COMPILED, said=("BUG",))
    [line] = apart(eager, compiled)
    reason = shown(eager, compiled, Criterion(), (line,)).reason
    assert "line 1 of its output on stderr: it prints `BUG`" in reason


def test_a_printed_difference_of_the_last_bits_is_that_of_no_difference_and_a_count_is_not() -> None:
    eager = replace(EAGER, printed=("max 0.0", "wrong 0", "loss 1e-06"))
    compiled = replace(COMPILED, printed=("max 1.19e-07", "wrong 3", "loss 2e-06"))
    assert apart(eager, compiled) == (1, 2)
