"""A report as Markdown, to paste into a PyTorch issue.

Names only files, never folders: an issue must not show where things lie on the user's machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .blocks import (
    Bar,
    Block,
    Cell,
    Folded,
    Item,
    Link,
    Medium,
    Paragraph,
    Report,
    Section,
    Span,
    Table,
    Tone,
    Verbatim,
)
from .words import file_name, percent

# The folders of an absolute path. "@" cannot be in one, so that no decision ID (`match:/pass.name@node`) is
# taken for a path; after a letter, digit, dot, slash or hyphen it is part of a relative path or a URL.
_PATH = re.compile(r"""(?<![\w./\\-])(?:[A-Za-z]:[\\/]|~?/)(?:[^\s:'"`<>|()@,;\\/]+[\\/])+""")


def render(report: Report) -> str:
    """The Markdown text."""
    parts = [f"# {without_folders(report.title)}", without_folders(report.answer.text)]
    parts += [_section(section) for section in report.sections if section.shown is not Medium.TERMINAL]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    title = f"## {section.title}" + (f": {without_folders(section.note)}" if section.note else "")
    return "\n\n".join([title, *_blocks(section.blocks)])


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    """The blocks; items that follow one another and have no body are one list."""
    listed: list[str] = []
    for block in blocks:
        if isinstance(block, Item) and not block.body:
            listed.append(_item(block))
            continue
        if listed:
            yield "\n".join(listed)
            listed = []
        yield _block(block)
    if listed:
        yield "\n".join(listed)


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return without_folders(block.text)
    if isinstance(block, Verbatim):
        return _fenced(block)
    if isinstance(block, Link):
        return block.url
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Item):
        return _item(block)
    assert isinstance(block, Folded)
    parts = ["<details>\n<summary>" + block.summary + "</summary>", *_blocks(block.blocks), "</details>"]
    return "\n\n".join(parts)


def _item(item: Item) -> str:
    """The body is indented as far as Markdown wants it below the mark of the list."""
    ordered = item.label.endswith(".")
    mark = f"{item.label} " if ordered else "- "
    label = f"{item.label} " if not ordered and item.label != "-" else ""
    place = f" ({file_name(item.place)})" if item.place else ""
    head = f"{mark}{label}{_span(item.head)}{place}"
    body = "\n\n".join(_blocks(item.body))
    indented = [" " * len(mark) + line if line else "" for line in body.splitlines()]
    return "\n".join([head, "", *indented]) if indented else head


def _span(span: Span) -> str:
    text = without_folders(span.text)
    return code(text) if span.tone is Tone.NAME else text


def _table(table: Table) -> str:
    """A bar ends a cell even inside inline code."""
    columns = range(len(table.rows[0]))
    rule = ["---:" if index in table.numeric else "---" for index in columns]
    header = [_escaped(title) for title in table.header] or [""] * len(columns)
    rows = (header, rule, *([_cell(cell) for cell in row] for row in table.rows))
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return percent(cell.fraction)
    return "".join(
        _span(span) if span.tone is Tone.NAME else _escaped(without_folders(span.text)) for span in cell
    )


def _fenced(block: Verbatim) -> str:
    """A code block whose fence is longer than any in the text. Python is left alone but for its comments:
    embedded base64 data looks like paths."""
    shown = [
        line if block.language == "python" and not line.lstrip().startswith("#") else without_folders(line)
        for line in block.text.rstrip("\n").splitlines()
    ]
    longest = max((len(run) for run in re.findall(r"`{3,}", block.text)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}{block.language}", *shown, fence])


def without_folders(text: str) -> str:
    """The text with every absolute path cut down to its last part."""
    return _PATH.sub("", text)


def code(text: str) -> str:
    """Inline code on one line, whatever backticks are in it."""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    inner = text.replace("\n", " ")
    return f"{ticks} {inner} {ticks}" if "`" in text else f"{ticks}{inner}{ticks}"


def _escaped(text: str) -> str:
    """Plain text for a table cell."""
    return re.sub(r"([\\*_<\[\]`])", r"\\\1", text.replace("\n", " "))
