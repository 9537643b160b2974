"""What two runs of a script print, line by line: which lines say other things, and how far their numbers are
apart.
"""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from typing import Protocol


class Prints(Protocol):
    """A run. printed: its lines on stdout; said: those that it printed on stderr."""

    @property
    def printed(self) -> tuple[str, ...]: ...

    @property
    def said(self) -> tuple[str, ...]: ...


def differing_line(line: int, eager: Prints, compiled: Prints) -> str:
    """What each of them prints there, in a sentence."""
    off, on = (_told(text) for text in dict(_lines(eager, compiled))[line])
    where = f"line {line % SAID + 1} of its output{' on stderr' if is_of_stderr(line) else ''}"
    return f"{where}: it prints {on}, with compilation off {off}"


def is_of_stderr(line: int) -> bool:
    """Whether the line of this number is printed on stderr."""
    return line >= SAID


def _told(text: str | None) -> str:
    return "nothing" if text is None else f"`{text}`"


def apart(one: Prints, two: Prints) -> tuple[int, ...]:
    """The printed lines that differ in words or, by more than what a float32 sum is off, in numbers. Those
    on stderr are numbered from SAID on."""
    return tuple(i for i, (a, b) in _lines(one, two) if a != b and _say_other_things(a, b))


def _lines(one: Prints, two: Prints) -> list[tuple[int, tuple[str | None, str | None]]]:
    """Line by line; None where one of them printed fewer."""
    printed = enumerate(zip_longest(one.printed, two.printed))
    return [*printed, *enumerate(zip_longest(one.said, two.said), SAID)]


SAID = 1 << 20
MOST_LINES = 10_000  # that are compared of what a script prints
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)")
_WHOLE = re.compile(r"[-+]?\d+")
# What a line says of the process and not of the program: addresses, times of the day, durations, and the name
# that torch.compile's wrapper gives to the module within (torch/_dynamo/eval_frame.py).
_OF_THE_RUN = re.compile(
    r"\b0x[0-9a-fA-F]+\b|\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b"
    r"|\b\d+(?:\.\d*)?(?:e-?\d+)?\s?(?:ns|us|µs|ms|s|sec|seconds)\b"
)
_WRAPPER = "_orig_mod."
PRINTED_ALIKE = 1e-4  # relative: torch prints four digits
NOTHING = 1e-5  # of a difference or a sum that cancels; atol of torch.testing.assert_close for float32
NEARLY_ALIKE = 1e-2  # relative: rounding that grew may make as much of a number


def _say_other_things(a: str | None, b: str | None) -> bool:
    if a is None or b is None or _words(a) != _words(b):
        return True
    return any(not _alike(x, y, PRINTED_ALIKE) for x, y in _numbers(a, b))


def is_near(line: int, one: Prints, two: Prints) -> bool:
    """Whether the two say the same words there, and floats that differ little."""
    a, b = dict(_lines(one, two))[line]
    if a is None or b is None or _words(a) != _words(b):
        return False
    counts = [x != y and bool(_WHOLE.fullmatch(x)) for x, y in zip(_found(a), _found(b), strict=True)]
    return not any(counts) and all(_alike(x, y, NEARLY_ALIKE) for x, y in _numbers(a, b))


def _meant(line: str) -> str:
    """The line without what it says of the process alone."""
    return _OF_THE_RUN.sub("", line.replace(_WRAPPER, ""))


def _words(line: str) -> str:
    """The line with each number replaced, and without spaces: how many there are depends on the numbers."""
    return "".join(NUMBER.sub("#", _meant(line)).split())


def _found(line: str) -> list[str]:
    return NUMBER.findall(_meant(line))


def _numbers(a: str, b: str) -> list[tuple[float, float]]:
    """The numbers of two lines of the same words, by their places."""
    return [(float(x), float(y)) for x, y in zip(_found(a), _found(b), strict=True)]


def _alike(x: float, y: float, relative: float) -> bool:
    if x == y or (math.isnan(x) and math.isnan(y)):
        return True
    return max(abs(x), abs(y)) <= NOTHING or math.isclose(x, y, rel_tol=relative)
