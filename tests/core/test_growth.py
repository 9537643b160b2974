"""Rounding is what makes a script differ only where moving eager by rounding makes it differ too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bisector.core.criterion import Criterion
from bisector.core.growth import is_made_by_rounding
from bisector.core.printed import PrintedLine
from bisector.core.program import CompiledCall, PlainRun
from tests.core.measurements import off_by, output

LINES = tuple(PrintedLine(number) for number in range(4))
CALL = CompiledCall(0, "f", (output(),))
EAGER = PlainRun((CALL, replace(CALL, index=1)), status=0, printed=("a 1", "b 2", "c 3", "d 4"))
FAR = replace(CALL, outputs=(off_by(1.0),))


def printing(*lines: str) -> PlainRun:
    return replace(EAGER, printed=lines)


def made(compiled: PlainRun, *rounded: PlainRun, last: int | None = None) -> bool:
    return is_made_by_rounding(EAGER, compiled, rounded, Criterion(), LINES, last)


def test_a_line_that_rounding_moves_too_is_made_by_it_and_another_is_not() -> None:
    compiled = printing("a 7", "b 2", "c 3", "d 4")
    assert made(compiled, EAGER, printing("a 9", "b 2", "c 3", "d 4"))
    assert not made(compiled, EAGER, printing("a 1", "b 9", "c 3", "d 4"))
    assert not made(compiled, EAGER, EAGER)


def test_of_several_lines_half_must_be_met_by_all_runs_together() -> None:
    compiled = printing("a 7", "b 7", "c 7", "d 7")
    one, two = printing("a 9", "b 2", "c 3", "d 4"), printing("a 1", "b 2", "c 3", "d 9")
    assert made(compiled, one, two)
    assert not made(compiled, one, one)


def test_no_more_runs_are_made_than_are_needed() -> None:
    compiled, asked = printing("a 7", "b 2", "c 3", "d 4"), list[int]()

    def runs() -> Iterator[PlainRun]:
        for number in range(3):
            asked.append(number)
            yield compiled

    assert is_made_by_rounding(EAGER, compiled, runs(), Criterion(), LINES)
    assert asked == [0]


def test_values_of_any_call_stand_for_those_of_all_and_an_exception_does_not() -> None:
    first, second = replace(EAGER, calls=(FAR, CALL)), replace(EAGER, calls=(CALL, replace(FAR, index=1)))
    assert made(first, second)
    raises = replace(EAGER, calls=(replace(CALL, outputs=(), raised="ValueError: no"), EAGER.calls[1]))
    assert not made(first, raises)
    assert not made(raises, first)


def test_where_the_runs_end_at_a_call_nothing_beside_the_calls_counts() -> None:
    compiled = replace(EAGER, calls=(FAR, CALL), printed=(), status=1)
    ended = PlainRun((FAR,), status=0)
    assert made(compiled, ended, last=0)
    assert not made(compiled, PlainRun((CALL,), status=0), last=0)


def test_what_does_not_differ_is_not_made_by_anything() -> None:
    assert not made(EAGER, printing("a 9", "b 2", "c 3", "d 4"))
