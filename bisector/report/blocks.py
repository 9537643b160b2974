"""A report as data: sections of a few kinds of blocks, the same for every form that it is shown in.

In every text a name between backticks is code, as in the sentences of result.json; no other syntax means
anything.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Tone(enum.Enum):
    """What a piece of text is; each form has its own look for it."""

    PLAIN = "plain"
    NAME = "name"  # an ID or a flag, as it is typed
    QUIET = "quiet"
    GOOD = "good"
    NEEDED = "needed"
    DOUBTFUL = "doubtful"
    BAD = "bad"


@dataclass(frozen=True)
class Span:
    """A piece of text."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Bar:
    """A cell of a table: a part of the whole from 0 to 1, None where it is not known."""

    fraction: float | None
    tone: Tone = Tone.PLAIN


Cell = tuple[Span, ...] | Bar


@dataclass(frozen=True)
class Paragraph:
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Verbatim:
    """Lines to copy, which are never wrapped. language: "python", "diff", or "" for any other."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Link:
    url: str


@dataclass(frozen=True)
class Table:
    """rows: of cells, at least one row. header: empty for none. numeric: the columns that hold numbers."""

    rows: tuple[tuple[Cell, ...], ...]
    header: tuple[str, ...] = ()
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Item:
    """An entry of a list. label: "-", "1." or "[1]", where other text refers to it so. place: the user's
    `file:line`. body: what the report says of it."""

    label: str
    head: Span
    place: str = ""
    body: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Folded:
    """Details that a reader opens; a form that cannot fold leaves them out."""

    summary: str
    blocks: tuple[Block, ...]


Block = Paragraph | Verbatim | Link | Table | Item | Folded


class Medium(enum.Enum):
    """Where a section is shown. TERMINAL: to who ran it, next to the files. PAGE: to who did not."""

    EVERYWHERE = "everywhere"
    TERMINAL = "terminal"
    PAGE = "page"


class Detail(enum.Enum):
    """How much of a report a terminal shows: what fits a screen, or all of it."""

    GIST = "gist"
    ALL = "all"


@dataclass(frozen=True)
class Section:
    """note: in a few words, next to the title. gist: the blocks of a report that fits a screen, empty where
    it leaves the section out; None where it shows all of it."""

    title: str
    blocks: tuple[Block, ...]
    note: str = ""
    shown: Medium = Medium.EVERYWHERE
    gist: tuple[Block, ...] | None = None


@dataclass(frozen=True)
class Report:
    """title: of a page or an issue. answer: in one sentence."""

    title: str
    answer: Span
    sections: tuple[Section, ...]


def cell(text: str, tone: Tone = Tone.PLAIN) -> Cell:
    """A cell of one piece of text."""
    return (Span(text, tone),)


def items(lines: list[str], tone: Tone = Tone.PLAIN) -> tuple[Item, ...]:
    """A list without labels."""
    return tuple(Item("-", Span(line, tone)) for line in lines)
