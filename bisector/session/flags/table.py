"""`numbisect flags` without a target: the catalogue as text for a terminal, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..output import width, write_json
from . import catalogue

NOT_CURATED = "not curated"
BACKENDS = {"cpp": "C++ code", "triton": "Triton code", "aten": "library calls"}


def list_flags(given: Mapping[str, Any]) -> int:
    """The curated flags with what the installed torch says of them, or what else torch has."""
    asked = catalogue.Asked(given["family"], given["device"], given["every"], given["unknown"])
    rows = catalogue.rows(asked)
    if given["json_path"] is not None:
        write_json(given["json_path"], rows)
        return 0
    color = sys.stdout.isatty() and not given["no_color"]
    print(table(rows, width(), color), end="")
    return 0


def table(rows: Sequence[Mapping[str, Any]], columns: int, color: bool) -> str:
    """The flags a family at a time, those that nobody curated last."""
    out = StringIO()
    console = Console(file=out, width=columns, force_terminal=color, no_color=not color, highlight=False)
    for family in dict.fromkeys(row["family"] for row in rows):
        console.print(Text(family or NOT_CURATED, style="bold"))
        for row in (r for r in rows if r["family"] == family):
            console.print(Padding(Text(_head(row)), (0, 0, 0, 2), expand=False))
            for line in _about(row):
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 6), expand=False))
    return out.getvalue()


def _head(row: Mapping[str, Any]) -> str:
    if not row["present"]:
        return f"{row['name']}: absent in this torch (since {row['since']})"
    changed = row["default"] is not None and row["default"] != row["value"]
    value = f"{row['name']} = {row['value']!r}" + (f" (default {row['default']!r})" if changed else "")
    return value if row["family"] is None else f"{value}, conservative {row['conservative']!r}"


def _about(row: Mapping[str, Any]) -> list[str]:
    if row["family"] is None:
        read = f"read by {', '.join(row['read_by'])}" if row["read_by"] else ""
        return [line for line in (row["comment"], read) if line]
    where = [
        row["device"] and f"on {row['device']}",
        BACKENDS.get(row["backend"]),
        f"since {row['since']}",
        row["performance"] and "changes speed",
        row["env"] and f"${row['env']}",
    ]
    return [row["effect"], " · ".join(filter(None, where)), row["reference"]]
