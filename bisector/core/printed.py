"""What two runs of a script print, write and say at their ends, line by line: which lines say other things,
and how far their numbers differ.

What moves from run to run (a time, an address) is not left out by how it looks, but because two runs with
compilation off differ there: a number of seconds may be the script's result.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Protocol


class Prints(Protocol):
    """A run. printed: its lines on stdout; said: those on stderr; wrote: those of the files that it wrote,
    each after the file's name. ended: the exception that ended it; refuted: how many of its comparisons
    raised."""

    @property
    def printed(self) -> tuple[str, ...]: ...

    @property
    def said(self) -> tuple[str, ...]: ...

    @property
    def wrote(self) -> tuple[str, ...]: ...

    @property
    def ended(self) -> str | None: ...

    @property
    def refuted(self) -> int: ...


@dataclass(frozen=True)
class PrintedLine:
    """A line that counts. number: from 0, those on stderr from SAID on, those of files from WROTE on, and END
    for what ends the script. moving: which of its numbers move from run to run, by their order in the line,
    and do not count; words: which of its words do (`_split`), so that each of them is compared by itself;
    edges: how many words at its beginning and at its end count alone, where those between move in
    number. exactly: nearly equal numbers count as different: the values of the calls do not make them so."""

    number: int
    moving: tuple[int, ...] = ()
    words: tuple[int, ...] = ()
    edges: tuple[int, int] | None = None
    exactly: bool = False

    @property
    def is_of_stdout(self) -> bool:
        return self.number < SAID


@dataclass(frozen=True)
class Moving:
    """What moves between runs of one program. numbers, words: by line, by their order in it; edges: of lines
    of which not even the number of words stays, how many at the beginning and at the end do; lines: those of
    which nothing stays."""

    numbers: Mapping[int, frozenset[int]] = field(default_factory=dict)
    words: Mapping[int, frozenset[int]] = field(default_factory=dict)
    edges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    lines: frozenset[int] = frozenset()

    def counted(self, lines: Iterable[int]) -> tuple[PrintedLine, ...]:
        """Of these lines those whose words stay, without the numbers that move."""
        return tuple(self._counted(line) for line in lines if line not in self.lines)

    def _counted(self, line: int) -> PrintedLine:
        words = tuple(sorted(self.words.get(line, ())))
        if (edges := self.edges.get(line)) is not None:
            first, last = edges
            return PrintedLine(line, edges=(min((first, *words)), 0 if words else last))
        return PrintedLine(line, tuple(sorted(self.numbers.get(line, ()))), words)


STILL = Moving()


def moving(*pairs: tuple[Prints, Prints]) -> Moving:
    """What differs between two runs of one program, in any of the pairs."""
    numbers, words = dict[int, frozenset[int]](), dict[int, frozenset[int]]()
    edges, lines = dict[int, tuple[int, int]](), set[int]()
    for line, (a, b) in (found for one, two in pairs for found in _lines(one, two)):
        if a is None or b is None:
            if a != b:
                lines.add(line)
            continue
        if same_words(a, b):
            if moved := _moved(_found(a), _found(b)):
                numbers[line] = numbers.get(line, frozenset()) | moved
            continue
        first_words, second_words = _split(a), _split(b)
        if len(first_words) == len(second_words):
            words[line] = words.get(line, frozenset()) | _moved(first_words, second_words)
            stay = [word for i, word in enumerate(first_words) if i not in words[line]]
        else:
            first, last = _in_common(first_words, second_words)
            known = edges.get(line, (first, last))
            edges[line] = first, last = min(first, known[0]), min(last, known[1])
            stay = [*first_words[:first], *first_words[len(first_words) - last :]]
        if not _says(stay):
            lines.add(line)
    return Moving(numbers, words, edges, frozenset(lines))


def _in_common(one: Sequence[str], two: Sequence[str]) -> tuple[int, int]:
    """How many words two lines have in common at their beginnings and at their ends."""
    pairs = list(zip(one, two, strict=False))
    first = next((i for i, (x, y) in enumerate(pairs) if x != y), len(pairs))
    behind = list(zip(reversed(one[first:]), reversed(two[first:]), strict=False))
    return first, next((i for i, (x, y) in enumerate(behind) if x != y), len(behind))


def come_and_go(one: Prints, two: Prints) -> frozenset[str]:
    """Of two runs of one program that say not as many lines, the words of those that are not as often in
    both: reports of progress, say, as time goes by."""
    gone = set[str]()
    for a, b in ((one.printed, two.printed), (one.said, two.said)):
        if len(a) != len(b):
            often = Counter(map(_words, a)), Counter(map(_words, b))
            gone |= {words for words in often[0] | often[1] if often[0][words] != often[1][words]}
    return frozenset(gone)


def without(lines: Sequence[str], gone: Collection[str]) -> tuple[str, ...]:
    """The lines that say other words."""
    return tuple(line for line in lines if _words(line) not in gone)


def _moved(one: Sequence[str], two: Sequence[str]) -> frozenset[int]:
    return frozenset(i for i, (x, y) in enumerate(zip(one, two, strict=True)) if x != y)


def compare_lines(one: Prints, two: Prints, still: Moving = STILL) -> tuple[PrintedLine, ...]:
    """The lines that say other things. still: what moves by itself, and is left out. Those whose numbers are
    nearly equal are to be compared exactly, unless the values of the calls make them so."""
    texts = {line: pair for line, pair in _lines(one, two) if pair[0] != pair[1]}
    found = list[PrintedLine]()
    for line in still.counted(texts):
        exactly = replace(line, exactly=True)
        if _differs(exactly, *texts[line.number]):
            found.append(line if _differs(line, *texts[line.number]) else exactly)
    return tuple(found)


def differing(one: Prints, two: Prints, counted: Collection[PrintedLine]) -> tuple[int, ...]:
    """Of the lines that count, those that say other things."""
    texts = dict(_lines(one, two))
    found = (n.number for n in counted if n.number in texts and _differs(n, *texts[n.number]))
    return tuple(sorted(found))


def not_compared(one: Prints, two: Prints, still: Moving) -> tuple[int, ...]:
    """The lines that differ, and of which nothing stays from run to run."""
    return tuple(line for line, (a, b) in _lines(one, two) if line in still.lines and a != b)


def every_line(one: Prints, two: Prints) -> tuple[int, ...]:
    """The numbers of all lines that either of them printed."""
    return tuple(line for line, _ in _lines(one, two))


def digest_of_rest(lines: Sequence[str]) -> str:
    """Of the lines that are too many to keep; empty where there are none."""
    rest = lines[MOST_LINES:]
    return hashlib.sha256("\n".join(rest).encode()).hexdigest() if rest else ""


def differing_line(line: int, eager: Prints, compiled: Prints) -> str:
    """What each of them prints there, in a sentence."""
    off, on = (_quoted(text) for text in dict(_lines(eager, compiled))[line])
    if line == END:
        return f"its end: {on}; with compilation off {off}"
    if line >= WROTE:
        return f"a file: it writes {on}, with compilation off {off}"
    where = f"line {line % SAID + 1} of its output{' on stderr' if line >= SAID else ''}"
    return f"{where}: it prints {on}, with compilation off {off}"


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else f"`{text}`"


def _lines(one: Prints, two: Prints) -> list[tuple[int, tuple[str | None, str | None]]]:
    """Line by line; None where one of them printed fewer."""
    printed = enumerate(zip_longest(one.printed, two.printed))
    on_stderr = enumerate(zip_longest(one.said, two.said), SAID)
    wrote = enumerate(zip_longest(one.wrote, two.wrote), WROTE)
    return [*printed, *on_stderr, *wrote, (END, (_last_words(one), _last_words(two)))]


def _last_words(run: Prints) -> str:
    """What the exception that ended it says. Of an assertion the numbers with digits after the point are as
    far off as what it refutes, and of one that compares tensors all are."""
    ended = run.ended or ""
    if not ended.startswith("AssertionError"):
        return ended
    return NUMBER.sub("#", ended) if run.refuted else NUMBER.sub(lambda n: _without_digits(n[0]), ended)


def _without_digits(number: str) -> str:
    return number if _WHOLE.fullmatch(number) or re.match(AS_WRITTEN, number) else "#"


SAID, WROTE, END = 1 << 20, 2 << 20, 3 << 20
MOST_LINES = 10_000  # that are compared of what a script prints
# A decimal number, or an address, a digest or a time of the day, which are compared as they are written.
NUMBER = re.compile(
    r"0[xX][0-9a-fA-F]+|\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?"
    r"|[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)"
)
_WHOLE = re.compile(r"[-+]?\d+")
AS_WRITTEN = r"0[xX]|\d+:"
# The name that torch.compile's wrapper gives to the module within (torch/_dynamo/eval_frame.py), that of what
# is left of a function after a graph break (torch/_dynamo/resume_execution.py), and how a gradient is
# computed, which a tensor tells where it is printed.
_OF_THE_COMPILER = re.compile(
    r"_orig_mod\.|torch_dynamo_resume_in_(?P<of>\w+?)_at_\d+|, grad_fn=<\w+>|<\w+Backward\w*>"
)
PRINTED_ALIKE = 1e-4  # relative: torch prints four digits
NOTHING = 1e-5  # of a difference or a sum that cancels; atol of torch.testing.assert_close for float32
NEARLY_ALIKE = 1e-2  # relative: rounding that grew may make as much of a number


def _differs(line: PrintedLine, a: str | None, b: str | None) -> bool:
    """a, b: what two runs print there."""
    if a is None or b is None:
        return True
    if line.words or line.edges is not None:
        alone = PrintedLine(line.number, exactly=line.exactly)
        return any(_differs(alone, x, y) for x, y in _words_that_count(line, _split(a), _split(b)))
    if not same_words(a, b):
        return True
    pairs = [pair for i, pair in enumerate(zip(_found(a), _found(b), strict=True)) if i not in line.moving]
    return any(x != y if line.exactly else not _are_close(x, y, PRINTED_ALIKE) for x, y in pairs)


def _words_that_count(
    line: PrintedLine, one: Sequence[str], two: Sequence[str]
) -> list[tuple[str | None, str | None]]:
    """The words of two texts of a line that are held against each other; None for one that is not there."""
    if line.edges is None:
        pairs = enumerate(zip_longest(one, two))
        return [pair for i, pair in pairs if i not in line.words]
    first, last = line.edges
    behind = zip_longest(one[len(one) - last :], two[len(two) - last :])
    return [*zip_longest(one[:first], two[:first]), *behind]


def is_near(line: int, one: Prints, two: Prints) -> bool:
    """Whether the two say the same words there, and floats that differ little."""
    a, b = dict(_lines(one, two))[line]
    if a is None or b is None or _words(a) != _words(b):
        return False
    return all(_are_close(x, y, NEARLY_ALIKE) for x, y in zip(_found(a), _found(b), strict=True))


# A number that stands alone, the letters and digits of a name, or a mark.
_WORD = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?!\w|\.\d)|\w+|[^\w\s]")


def _split(line: str) -> list[str]:
    """The words of a line, split at spaces and marks: a name that moves may stand next to a value."""
    return _WORD.findall(_plain(line))


def _says(words: Iterable[str]) -> bool:
    """Whether one of them is more than a mark."""
    return any(any(map(str.isalnum, word)) for word in words)


def same_words(one: str, two: str) -> bool:
    """Whether two lines say the same but for numbers and spaces."""
    return _words(one) == _words(two)


def _words(line: str) -> str:
    """The line with each number replaced, and without spaces: how many there are depends on the numbers."""
    return "".join(NUMBER.sub("#", _plain(line)).split())


def _found(line: str) -> list[str]:
    """Its numbers, in their order."""
    return NUMBER.findall(_plain(line))


def _plain(line: str) -> str:
    return _OF_THE_COMPILER.sub(lambda name: name["of"] or "", line)


def _are_close(x: str, y: str, relative: float) -> bool:
    """Whether two printed numbers may be one: whole ones are exact, and NaN is like nothing but NaN."""
    if x == y:
        return True
    if any(re.match(AS_WRITTEN, one) for one in (x, y)) or all(_WHOLE.fullmatch(one) for one in (x, y)):
        return False
    a, b = float(x), float(y)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return max(abs(a), abs(b)) <= NOTHING or math.isclose(a, b, rel_tol=relative)


# What a script writes of itself where something is not as it should be.
_COMPLAINT = re.compile(
    r"\b(?:mismatch\w*|wrong|fail(?:s|ed|ure|ures)?|not (?:equal|close|ok)|differs?|diverge[sd]?|bug|false)\b"
    r"|✗|❌",
    re.IGNORECASE,
)


def complaint(run: Prints) -> str:
    """The first printed line that says that something is not as it should be; empty where none does."""
    return next((line.strip() for line in (*run.printed, *run.said) if _COMPLAINT.search(line)), "")
