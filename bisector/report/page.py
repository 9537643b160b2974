"""A page of terminal text: the few layouts that the text report is made of, on top of rich."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

INDENT = 2


class Page:
    """Collects what is written to it; `text()` gives the page without trailing spaces.

    Nothing in the arguments is read as markup: node names and shapes are full of brackets.
    """

    def __init__(self, width: int, color: bool) -> None:
        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            width=width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ={},  # the terminal's variables must not change a report that is written to a file
        )

    def text(self) -> str:
        lines = self._buffer.getvalue().splitlines()
        return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"

    def headline(self, sentence: str, style: str) -> None:
        self._console.print(Text(sentence, style=f"bold {style}"))

    def heading(self, title: str, note: str = "") -> None:
        self._console.print()
        self._console.print(Text.assemble((title, "bold"), ("  " if note else ""), note))

    def paragraph(self, *parts: str | tuple[str, str], indent: int = INDENT) -> None:
        """Wrapped text; a part is a string or (string, style)."""
        self._console.print(Padding(Text.assemble(*parts), (0, 0, 0, indent)))

    def item(self, label: str, *parts: str | tuple[str, str], indent: int = INDENT) -> None:
        """A label with text that hangs beside it."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(label), Text.assemble(*parts))
        self._console.print(Padding(grid, (0, 0, 0, indent)))

    def verbatim(self, source: str, indent: int = INDENT, style: str = "") -> None:
        """Lines to copy: never wrapped, whatever the width."""
        for line in source.rstrip("\n").splitlines():
            self._console.print(Text(" " * indent + line, style=style), soft_wrap=True)

    def table(
        self, rows: Sequence[Sequence[Text]], header: Sequence[str] = (), right: frozenset[int] = frozenset()
    ) -> None:
        """A table without lines; the columns in `right` are numbers. At least one row."""
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        grid.show_header = bool(header)
        for index, title in enumerate(header or [""] * len(rows[0])):
            numeric = index in right
            grid.add_column(title, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
        for row in rows:
            grid.add_row(*row)
        self._console.print(Padding(grid, (0, 0, 0, INDENT)))
