"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from .blocks import (
    Bar,
    Block,
    Cell,
    Detail,
    Folded,
    Item,
    Link,
    Medium,
    Paragraph,
    Report,
    Section,
    Table,
    Tone,
    Verbatim,
)
from .literal import on_page
from .words import percent

INDENT = 2
STYLES = {
    Tone.PLAIN: "",
    Tone.NAME: "cyan",
    Tone.QUIET: "dim",
    Tone.GOOD: "green",
    Tone.NEEDED: "cyan",
    Tone.DOUBTFUL: "yellow",
    Tone.BAD: "red",
}
BAR_WIDTH, PERCENT_WIDTH = 8, 4


def render(report: Report, width: int, color: bool, detail: Detail = Detail.ALL) -> str:
    """The text at a terminal width, without trailing spaces; with color, ANSI sequences.

    Lines that are there to be copied are never wrapped and so can be longer than `width`.
    """
    page = _Page(width, color)
    page.put(Text(report.answer.text, style=f"bold {STYLES[report.answer.tone]}"))
    for section in report.sections:
        if section.shown is Medium.PAGE:
            continue
        if detail is Detail.ALL or section.gist is None:
            page.section(section, section.blocks)
        elif section.gist:
            page.section(section, section.gist)
    lines = page.buffer.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


class _Page:
    def __init__(self, width: int, color: bool) -> None:
        self._console, self.buffer = on_page(width, color)

    def put(self, text: Text | Grid, indent: int = 0) -> None:
        self._console.print(Padding(text, (0, 0, 0, indent)))

    def section(self, section: Section, blocks: Iterable[Block]) -> None:
        self._console.print()
        note = f"  {section.note}" if section.note else ""
        self._console.print(Text.assemble((section.title, "bold"), note))
        self.blocks(blocks, INDENT)

    def blocks(self, blocks: Iterable[Block], indent: int) -> None:
        for block in blocks:
            self.block(block, indent)

    def block(self, block: Block, indent: int) -> None:
        if isinstance(block, Paragraph):
            self.put(Text(block.text, style=STYLES[block.tone]), indent)
        elif isinstance(block, Verbatim):
            self._unwrapped(block.text, indent + 2)
        elif isinstance(block, Link):
            self._unwrapped(block.url, indent)
        elif isinstance(block, Table):
            self.put(_grid(block), indent)
        elif isinstance(block, Item):
            self._item(block, indent)
        else:
            assert isinstance(block, Folded)

    def _item(self, item: Item, indent: int) -> None:
        """The head stands right of the label, and the body below the head."""
        grid = Grid.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        head = Text.assemble((item.head.text, STYLES[item.head.tone]))
        if item.place:
            head.append(f"  {item.place}", style="magenta")
        grid.add_row(Text(item.label), head)
        self.put(grid, indent)
        self.blocks(item.body, indent + len(item.label) + 1)

    def _unwrapped(self, source: str, indent: int) -> None:
        for line in source.rstrip("\n").splitlines():
            self._console.print(Text(" " * indent + line), soft_wrap=True)


def _grid(table: Table) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.show_header = bool(table.header)
    for index, title in enumerate(table.header or [""] * len(table.rows[0])):
        numeric = index in table.numeric
        grid.add_column(title, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in table.rows:
        grid.add_row(*map(_cell, row))
    return grid


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Bar):
        drawn = bar(cell.fraction).ljust(BAR_WIDTH)
        return Text.assemble((drawn, STYLES[cell.tone]), f"  {percent(cell.fraction):>{PERCENT_WIDTH}}")
    return Text.assemble(*((span.text, STYLES[span.tone]) for span in cell))


def bar(fraction: float | None) -> str:
    """A fraction as a bar; full and empty are drawn only where they are exact."""
    if fraction is None:
        return ""
    filled = round(fraction * BAR_WIDTH)
    if 0 < fraction < 1:
        filled = min(max(filled, 1), BAR_WIDTH - 1)
    return "█" * filled + "░" * (BAR_WIDTH - filled)
