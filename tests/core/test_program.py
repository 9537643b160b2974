"""What a plain run of a script shows beside the same with compilation off."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from bisector.core.criterion import Criterion
from bisector.core.model import DivergenceKind
from bisector.core.outcome import Outcome
from bisector.core.printed import (
    END,
    STILL,
    Moving,
    PrintedLine,
    come_and_go,
    compare_lines,
    moving,
    not_compared,
    without,
)
from bisector.core.program import CompiledCall, PlainRun, without_its_own_words
from bisector.core.shown import is_exact, shown
from bisector.core.shown import not_compared as not_seen
from bisector.report.reasons import words
from tests.core.measurements import off_by, output


def far_apart(one: PlainRun, two: PlainRun, still: Moving = STILL) -> tuple[int, ...]:
    """The lines that differ by more than numbers that are nearly alike."""
    return tuple(line.number for line in compare_lines(one, two, still) if not line.exactly)


def counted(*lines: int) -> tuple[PrintedLine, ...]:
    return tuple(map(PrintedLine, lines))


def test_a_run_up_to_a_call_says_nothing_of_what_comes_after_it() -> None:
    calls = tuple(CompiledCall(index, "f", (output(),)) for index in range(4))
    run = PlainRun(calls, (True, False), ended="ValueError: x", status=1, printed=("a",), cut="b")
    assert run.up_to(1) == PlainRun(calls[:2], status=0)
    assert not_seen(PlainRun(calls[:1], status=0).up_to(1), run.up_to(1)), "it ended before"
    killed = replace(run, status=None)
    assert killed.up_to(1) == killed


def test_of_calls_from_several_threads_none_is_known_to_be_the_first() -> None:
    calls = tuple(CompiledCall(index, "f", (output(),), key=str(index)) for index in range(3))
    run = PlainRun(calls, status=0)
    assert run.up_to(1).calls == ()
    assert not_seen(run.up_to(1), run.up_to(1))


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
    assert words(found.reason).startswith("call 2 of 3 (`g`): output[0]: largest difference 1 ")


def test_a_call_that_raises_on_one_side_only_is_named_with_the_side() -> None:
    compiled = replace(COMPILED, calls=(CompiledCall(0, "f", raised="TypeError: no"),))
    assert "compiled raises TypeError: no" in words(shown(EAGER, compiled, Criterion()).reason)
    assert "eager raises TypeError: no" in words(shown(compiled, COMPILED, Criterion()).reason)


def test_a_comparison_of_the_script_that_fails_compiled_alone_counts_where_values_show_nothing() -> None:
    found = shown(EAGER, replace(COMPILED, agreed=(True, False)), Criterion())
    assert words(found.reason) == "its comparison 2 of 2, which fails compiled alone"
    both = replace(EAGER, agreed=(True, False))
    assert not shown(both, replace(COMPILED, agreed=(True, False)), Criterion()).diverges


def test_an_exit_status_or_an_exception_that_differs_counts_and_its_message_does_not() -> None:
    assert "exit status 3" in words(shown(EAGER, replace(COMPILED, status=3), Criterion()).reason)
    one = replace(EAGER, status=1, ended="AssertionError: 0.1")
    assert not shown(one, replace(COMPILED, status=1, ended="AssertionError: 0.2"), Criterion()).diverges
    assert shown(one, replace(COMPILED, status=1, ended="IndexError: 0.2"), Criterion()).diverges


def test_of_what_is_printed_words_count_and_numbers_beyond_what_a_sum_is_off() -> None:
    eager = replace(EAGER, printed=("loss 0.123456", "max 0 BUG", "at 3 of 7", "nan"))
    compiled = replace(COMPILED, printed=("loss 0.123457", "max 0 OK", "at 5 of 7", "nan"))
    assert far_apart(eager, compiled) == (1, 2)
    assert not shown(eager, compiled, Criterion()).diverges
    found = shown(eager, compiled, Criterion(), lines=counted(2, 3))
    told = "line 3 of its output: it prints `at 5 of 7`, with compilation off `at 3 of 7`"
    assert words(found.reason) == told


def test_a_call_that_raises_other_exceptions_on_its_two_sides_does_not_agree() -> None:
    eager = replace(EAGER, calls=(CompiledCall(0, "f", raised="ValueError: no"),))
    compiled = replace(COMPILED, calls=(CompiledCall(0, "f", raised="InductorError: oh"),))
    found = shown(eager, compiled, Criterion())
    assert found.diverges and found.exception == "ValueError: no"
    assert not shown(eager, replace(COMPILED, calls=eager.calls), Criterion()).diverges


def test_under_a_criterion_of_the_users_a_run_that_dies_still_dies() -> None:
    for end in ({"ended": "RuntimeError: no", "status": 1}, {"ended": "killed by SIGSEGV", "status": -11}):
        dead = without_its_own_words(replace(COMPILED, agreed=(False,), printed=("a",), **end))
        assert shown(without_its_own_words(EAGER), dead, Criterion()).diverges
    for end in ({"ended": "AssertionError: 0.1", "status": 1}, {"ended": None, "status": 3}):
        says = without_its_own_words(replace(COMPILED, agreed=(False,), printed=("a",), **end))
        assert not shown(without_its_own_words(EAGER), says, Criterion()).diverges


def test_an_agreement_says_what_was_compared() -> None:
    printing = replace(COMPILED, printed=("a", "b"))
    compared = shown(replace(EAGER, printed=("a", "b")), printing, Criterion()).compared
    assert compared is not None
    assert (compared.calls, compared.values, compared.comparisons, compared.lines) == (2, 2, 2, 2)


def test_another_number_of_comparisons_is_not_agreement() -> None:
    assert outcome(EAGER, replace(COMPILED, agreed=(True,)))[0] is Outcome.UNRESOLVED


def outcome(eager: PlainRun, compiled: PlainRun) -> tuple[Outcome, str]:
    found = shown(eager, compiled, Criterion())
    return found.outcome, words(found.reason)


@pytest.mark.parametrize("calls", [(), (AGREES,), COMPILED.calls])
def test_a_run_that_had_no_time_to_end_cannot_be_told_from_one_that_differs(
    calls: tuple[CompiledCall, ...]
) -> None:
    late = "the script was stopped, its time being up"
    compiled = replace(COMPILED, status=None, calls=calls)
    assert outcome(EAGER, compiled) == (Outcome.UNRESOLVED, f"compiled, {late}")
    eager = replace(EAGER, status=None, calls=EAGER.calls[: len(calls)])
    assert outcome(eager, COMPILED) == (Outcome.UNRESOLVED, f"with compilation off, {late}")


@pytest.mark.parametrize("killed", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_somebody_killed_says_nothing_and_one_that_crashed_does(killed: int) -> None:
    dead = replace(COMPILED, status=-killed, ended="killed by a signal", calls=(AGREES,))
    found, reason = outcome(EAGER, dead)
    assert (found, reason) == (Outcome.UNRESOLVED, "compiled, the script was killed (killed by a signal)")
    crashed = replace(dead, status=-signal.SIGSEGV, ended="killed by SIGSEGV")
    assert outcome(EAGER, crashed)[0] is Outcome.FAIL


def test_a_call_that_differs_before_the_time_is_up_is_a_divergence() -> None:
    differs = CompiledCall(0, "f", (off_by(1.0),))
    found = shown(EAGER, PlainRun((differs,), status=None), Criterion())
    assert found.diverges and found.call == 0


def test_nothing_that_an_unfinished_run_printed_is_compared() -> None:
    eager, compiled = replace(EAGER, printed=("a", "b")), replace(COMPILED, printed=("a",), status=None)
    assert shown(eager, compiled, Criterion(), lines=counted(1)).outcome is Outcome.UNRESOLVED


def test_fewer_calls_than_eager_makes_are_not_agreement() -> None:
    fewer = replace(COMPILED, calls=(AGREES,))
    found, reason = outcome(EAGER, fewer)
    assert found is Outcome.UNRESOLVED
    assert reason.startswith("compiled, the script makes 1 calls of compiled functions, and 2 with compil")
    assert outcome(fewer, COMPILED)[0] is Outcome.UNRESOLVED


def test_calls_of_different_functions_are_not_compared() -> None:
    """One of the two runs made a call that the other did not."""
    calls = (CompiledCall(0, "g", (off_by(1.0),)), CompiledCall(1, "f", (off_by(1.0),)))
    found, reason = outcome(EAGER, replace(COMPILED, calls=calls))
    assert found is Outcome.UNRESOLVED
    assert reason == "compiled, call 1 is one of `g`, and with compilation off of `f`"


def test_a_call_whose_values_were_not_all_compared_is_not_agreement() -> None:
    calls = (AGREES, CompiledCall(1, "g", (output(),), unseen="output[0] is too large to keep"))
    found, reason = outcome(EAGER, replace(COMPILED, calls=calls))
    assert (found, reason) == (Outcome.UNRESOLVED, "call 2 of 2 (`g`): output[0] is too large to keep")
    worse = (CompiledCall(0, "f", (off_by(1.0),)), calls[1])
    assert outcome(EAGER, replace(COMPILED, calls=worse))[0] is Outcome.FAIL, "what was seen counts"


def test_a_run_is_exact_where_all_was_seen_and_every_bit_is_eagers() -> None:
    assert is_exact(COMPILED)
    assert not is_exact(PlainRun(status=0)), "nothing was seen"
    moved = CompiledCall(1, "g", (off_by(1e-9),))
    unseen = CompiledCall(1, "g", (output(),), unseen="too large")
    raised = CompiledCall(1, "g", raised="TypeError: no")
    for call in (moved, unseen, raised):
        assert not is_exact(replace(COMPILED, calls=(AGREES, call)))


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        ("    head.weight tensor([1.])", "    _orig_mod.head.weight tensor([1.])"),
        ("a   1.0", "a 1.00001"),
        ("[1., 2.]", "[ 1.,  2.]"),
        ("nan and inf", "nan and inf"),
    ],
)
def test_wrappers_spaces_and_the_last_digits_are_no_difference(eager: str, compiled: str) -> None:
    assert not far_apart(replace(EAGER, printed=(eager,)), replace(COMPILED, printed=(compiled,)))


@pytest.mark.parametrize(
    ("eager", "again", "compiled"),
    [
        ("Net at 0x7f12ab", "Net at 0x7fff01", "Net at 0x55ee01"),
        ("step 3 took 0.5 s", "step 3 took 0.7 s", "step 3 took 12.75 s"),
        ("12:01:02 loss 1.5", "12:01:09 loss 1.5", "13:44:59.250 loss 1.5"),
    ],
)
def test_what_moves_between_two_runs_with_compilation_off_is_no_difference_and_the_rest_counts(
    eager: str, again: str, compiled: str
) -> None:
    off, on = replace(EAGER, printed=(eager,)), replace(COMPILED, printed=(compiled,))
    assert far_apart(off, on) == (0,), "how it looks does not tell: a number of seconds may be the result"
    still = moving((off, replace(off, printed=(again,))))
    assert not far_apart(off, on, still)
    wrong = replace(on, printed=(compiled.replace("3 took", "4 took").replace("1.5", "1.6"),))
    assert bool(far_apart(off, wrong, still)) == (wrong != on)


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [("max 0.0", "max nan"), ("nan", "0.0"), ("10000 of 3", "10001 of 3"), ("inf", "1")],
)
def test_a_nan_is_like_nothing_but_a_nan_and_a_whole_number_is_exact(eager: str, compiled: str) -> None:
    assert far_apart(replace(EAGER, printed=(eager,)), replace(COMPILED, printed=(compiled,))) == (0,)


@pytest.mark.parametrize(
    ("eager", "compiled", "near"),
    [
        ("w tensor([98304., 2.])", "w tensor([inf, 2.])", False),
        ("head.weight 1.0", "_orig_mod.head.weight 2.0", False),
        ("loss 1.000", "loss 1.004", True),
        ("(1, 7)", "(1, 1)", False),
        ("tensor(1.)", "None", False),
        ("at 100", "at 101", False),
    ],
)
def test_numbers_are_compared_by_their_place_in_the_line(eager: str, compiled: str, near: bool) -> None:
    runs = replace(EAGER, printed=(eager,)), replace(COMPILED, printed=(compiled,))
    assert far_apart(*runs) == (0,)
    found = shown(*runs, Criterion(), lines=counted(0))
    assert found.diverges and (found.kind is DivergenceKind.VALUE) == near


def test_a_line_that_one_run_alone_prints_is_a_difference() -> None:
    eager, compiled = replace(EAGER, printed=("a",)), replace(COMPILED, printed=("a", "BUG"))
    assert far_apart(eager, compiled) == (1,)
    reason = words(shown(eager, compiled, Criterion(), counted(1)).reason)
    assert reason.endswith("it prints `BUG`, with compilation off nothing")


def test_what_is_printed_on_stderr_counts_too() -> None:
    eager, compiled = replace(EAGER, said=("OK",)), replace(COMPILED, said=("BUG",))
    [line] = far_apart(eager, compiled)
    reason = words(shown(eager, compiled, Criterion(), counted(line)).reason)
    assert "line 1 of its output on stderr: it prints `BUG`" in reason


def test_a_printed_difference_of_the_last_bits_is_that_of_no_difference_and_a_count_is_not() -> None:
    """Nor is a sum that cancels: what is left of it is below the tolerance on both sides."""
    eager = replace(EAGER, printed=("max 0.0", "wrong 0", "mean 3.9e-07", "loss 1e-4", "gap 7e-09"))
    lines = ("max 1.19e-07", "wrong 3", "mean -8.9e-08", "loss 2e-4", "gap 8e-03")
    compiled = replace(COMPILED, printed=lines)
    assert far_apart(eager, compiled) == (1, 3, 4)


@pytest.mark.parametrize(
    ("name", "message", "diverges"),
    [
        ("TorchRuntimeError", "Dynamo failed to run FX node with fake tensors", False),
        ("InductorError", "ValueError: shapes differ", False),
        ("Unsupported", "Data-dependent branching", True),
        ("BackendCompilerFailed", "backend='inductor' raised", True),
    ],
)
def test_an_exception_of_dynamos_own_class_stands_for_eagers_but_not_its_refusals(
    name: str, message: str, diverges: bool
) -> None:
    """They all are a RuntimeError, which a script may catch."""
    eager = replace(EAGER, calls=(CompiledCall(0, "f", raised="RuntimeError: shapes differ"),))
    classes = (name, "TorchDynamoException", "RuntimeError")
    wrapped = CompiledCall(0, "f", raised=f"{name}: {message}", classes=classes)
    assert shown(eager, replace(COMPILED, calls=(wrapped,)), Criterion()).diverges is diverges


def test_of_a_line_whose_words_move_the_others_count() -> None:
    eager = replace(EAGER, printed=("[3f2a-x] words counted: 4 of 4",))
    still = moving((eager, replace(eager, printed=("[99ab-y] words counted: 4 of 4",))))
    same = replace(COMPILED, printed=("[71cc-z] words counted: 4 of 4",))
    assert not far_apart(eager, same, still)
    other = replace(COMPILED, printed=("[71cc-z] words counted: 0 of 4",))
    assert far_apart(eager, other, still) == (0,)
    assert shown(eager, other, Criterion(), lines=still.counted((0,))).diverges


def record(run: str, inference: str, loss: str) -> PlainRun:
    line = f'{{"run":"{run}","inference":{inference},"loss":{loss}}}'
    return replace(EAGER, printed=(line, f"at {loss}.", run))


def test_of_a_line_without_spaces_what_stands_beside_a_name_that_moves_counts() -> None:
    eager = record("a01c-77ef", "true", "0.431253")
    for moved in ("99ab-1234", "0b1-c"):
        still = moving((eager, record(moved, "true", "0.431253")))
        near, other = record("71cc-9eee", "true", "0.431254"), record("71cc-9eee", "false", "0.431253")
        assert not far_apart(eager, near, still)
        assert far_apart(eager, other, still) == (0,)
        assert not_compared(eager, near, still) == (2,), "nothing of that line stays"


def test_ends_by_one_exception_that_says_other_things_are_apart() -> None:
    eager = replace(EAGER, status=1, ended="AssertionError: the sum is above 1")
    compiled = replace(COMPILED, status=1, ended="AssertionError: word 7 was counted 0 times, not 4")
    found = shown(eager, compiled, Criterion(), compare_lines(eager, compiled))
    assert found.diverges
    assert words(found.reason) == f"its end: `{compiled.ended}`; with compilation off `{eager.ended}`"


@pytest.mark.parametrize(
    ("eager", "compiled", "refuted", "differs"),
    [
        ("ValueError: 4 times", "ValueError: 1 times", 0, True),
        ("AssertionError: 4 times", "AssertionError: 1 times", 0, True),
        ("AssertionError: off by 0.12", "AssertionError: off by 0.34", 0, False),  # what it refutes is off
        ("AssertionError: 3 of 16 differ", "AssertionError: 5 of 16 differ", 1, False),
        ("ValueError: at 0x7f12", "ValueError: at 0x7f12", 0, False),
    ],
)
def test_numbers_count_in_what_ends_a_script(eager: str, compiled: str, refuted: int, differs: bool) -> None:
    ends = {"status": 1, "refuted": refuted}
    runs = replace(EAGER, ended=eager, **ends), replace(COMPILED, ended=compiled, **ends)
    assert far_apart(*runs) == ((END,) if differs else ())


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [("err 9.99e-06", "err 1e-07"), ("seen 1000004.0", "seen 1000001.0"), ("loss 0.43124", "loss 0.43125")],
)
def test_numbers_that_are_nearly_alike_are_to_be_compared_exactly(eager: str, compiled: str) -> None:
    """What the values of the calls make of them is left out by whoever knows that."""
    off, on = replace(EAGER, printed=(eager,)), replace(COMPILED, printed=(compiled,))
    assert compare_lines(off, on) == (PrintedLine(0, exactly=True),)
    assert not shown(off, on, Criterion(), counted(0)).diverges
    assert shown(off, on, Criterion(), compare_lines(off, on)).diverges


def test_of_a_line_whose_words_move_in_number_its_beginning_and_end_count() -> None:
    eager = replace(EAGER, printed=("tables 1 slow calls 3 8 end",))
    still = moving((eager, replace(eager, printed=("tables 1 slow calls 5 end",))))
    same = replace(COMPILED, printed=("tables 1 slow calls 2 4 6 end",))
    assert not compare_lines(eager, same, still)
    for other in ("tables 9 slow calls 2 4 6 end", "tables 1 slow calls 2 bug"):
        assert far_apart(eager, replace(COMPILED, printed=(other,)), still) == (0,)


def test_of_a_line_of_which_nothing_stays_nothing_is_compared() -> None:
    eager = replace(EAGER, printed=("3 8",))
    still = moving((eager, replace(eager, printed=("5",))))
    compiled = replace(COMPILED, printed=("bug",))
    assert not compare_lines(eager, compiled, still)
    assert not_compared(eager, compiled, still) == (0,)
    assert not not_compared(eager, replace(compiled, printed=("3 8",)), still)


def test_lines_that_come_and_go_hide_no_others() -> None:
    waits, table = "waited 0.1 s", "table built 1"
    eager = replace(EAGER, printed=(waits, waits, table))
    gone = come_and_go(eager, replace(eager, printed=(waits, table)))
    assert without(eager.printed, gone) == without((waits, table), gone) == (table,)
    assert not come_and_go(eager, replace(eager, printed=(waits, table, table))), "as many: line by line"


def test_how_a_gradient_is_computed_is_not_what_is_printed() -> None:
    off = replace(EAGER, printed=("tensor(1.5, grad_fn=<MulBackward0>)",))
    on = replace(COMPILED, printed=("tensor(1.5, grad_fn=<CompiledFunctionBackward>)",))
    assert not compare_lines(off, on)


def test_a_file_that_says_something_else_is_a_line() -> None:
    off = replace(EAGER, wrote=("m.json: {", 'm.json: "n": 4'))
    on = replace(COMPILED, wrote=("m.json: {", 'm.json: "n": 1'))
    said = 'a file: it writes `m.json: "n": 1`, with compilation off `m.json: "n": 4`'
    assert words(shown(off, on, Criterion(), compare_lines(off, on)).reason) == said
    assert not without_its_own_words(off).wrote


def test_lines_that_were_cut_off_and_child_processes_are_no_agreement() -> None:
    cut = replace(EAGER, cut="ab"), replace(COMPILED, cut="cd")
    assert shown(*cut, Criterion()).outcome is Outcome.UNRESOLVED
    assert not shown(cut[0], replace(COMPILED, cut="ab"), Criterion()).diverges
    found = shown(EAGER, replace(COMPILED, unseen="it calls in child processes"), Criterion())
    assert (found.outcome, words(found.reason)) == (Outcome.UNRESOLVED, "it calls in child processes")


def test_a_counter_is_exact_whatever_a_comparison_of_the_script_allows() -> None:
    loose = Criterion(by_dtype={"int64": ((0.0, 20.0),)})
    counts = replace(off_by(4.0), dtype="int64")
    assert loose.broken(counts) is None
    assert loose.broken(replace(counts, path="state[stats['steps']]")) is not None
