"""The sections of the terminal report that are about flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from bisector.core.fix_source import python_literal
from bisector.report import facts
from bisector.report.contrast import contrast_lines
from bisector.report.page import Page
from bisector.report.words import Result, bar, conjunction, percent

MAX_IDLE_FLAGS = 12  # names of flags that changed nothing


def tried(page: Page, result: Result) -> None:
    """Each flag that does something, with what it removes; the rest in a line."""
    flags = result["flags"]
    if not flags:
        return
    idle = [flag for flag in flags if facts.role_words(flag) == "no effect"]
    telling = [flag for flag in flags if flag not in idle]
    page.heading("Flags", f"{len(flags)} tried alone; how much of the difference each removes")
    if telling:
        rows = [_flag_row(flag, result) for flag in telling]
        page.table(rows, ("removed", "", "role", "flag"), right=frozenset({1}))
    if idle:
        names = [flag["name"] for flag in idle[:MAX_IDLE_FLAGS]]
        rest = [f"{len(idle) - MAX_IDLE_FLAGS} more"] if len(idle) > MAX_IDLE_FLAGS else []
        page.paragraph((f"No effect: {conjunction([*names, *rest])}.", "dim"))
        if unchanged := sum(flag["told_by"] == "code" for flag in idle):
            page.paragraph((f"Of these {unchanged} leave the generated code as it is.", "dim"))


def _flag_row(flag: Mapping[str, Any], result: Result) -> list[Text]:
    role = facts.role_words(flag)
    style = {"fix": "green", "necessary": "cyan", "unresolved": "yellow", "worse": "red"}.get(role, "")
    change = f"{flag['name']} = {python_literal(flag['tried'])}"
    return [
        Text(bar(flag["removed_fraction"]), style=style),
        Text(percent(flag["removed_fraction"])),
        Text(role, style=style),
        Text.assemble(change, (f"  (was {facts.flag_before(flag, result)})", "dim")),
    ]


def compared(page: Page, result: Result) -> None:
    """The target's configuration beside another one."""
    contrast = result.get("contrast")
    if not contrast:
        return
    page.heading("Compared", f"with {contrast['with']}")
    for line in contrast_lines(contrast):
        page.paragraph(line)
