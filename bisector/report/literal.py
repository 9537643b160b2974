"""Where rich prints: every text as it stands.

Names, messages and paths are full of brackets, which rich takes for markup, and `:x:` can be the name of one
of its pictures.
"""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console


class Literal(Console):
    """A console to which a text means nothing. Where nobody reads what is printed, rich would end the program
    with status 1, which here means an answer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True


def on_page(width: int, color: bool) -> tuple[Literal, io.StringIO]:
    """A console, and the text that it has printed. color: whether with ANSI sequences."""
    page = io.StringIO()
    console = Literal(
        file=page,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        legacy_windows=False,
        _environ={},  # the terminal's variables must not change a text that is written to a file
    )
    return console, page
