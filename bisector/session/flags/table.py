"""`numbisect flags` without a target: the catalogue as text for a terminal, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..display import to_stdout
from ..output import width, write_json
from . import catalogue

BACKENDS = {"cpp": "C++ code", "triton": "Triton code", "aten": "library calls"}


def list_flags(given: Mapping[str, Any]) -> int:
    """The curated flags with what the installed torch says of them."""
    rows = catalogue.rows(catalogue.Asked(given["family"], given["device"]))
    if given["json_path"] is not None:
        write_json(given["json_path"], rows)
        return 0
    color = sys.stdout.isatty() and not given["no_color"]
    to_stdout(table(rows, width(), color))
    return 0


def table(rows: Sequence[Mapping[str, Any]], columns: int, color: bool) -> str:
    """The flags, a family at a time."""
    out = StringIO()
    console = Console(file=out, width=columns, force_terminal=color, no_color=not color, highlight=False)
    for family in dict.fromkeys(row["family"] for row in rows):
        console.print(Text(family, style="bold"))
        for row in (r for r in rows if r["family"] == family):
            console.print(Padding(Text(_head(row)), (0, 0, 0, 2), expand=False))
            for line in _about(row):
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 6), expand=False))
    return out.getvalue()


def _head(row: Mapping[str, Any]) -> str:
    if not row["present"]:
        return f"{row['name']}: absent in this torch (since {row['since']})"
    changed = row["default"] is not None and row["default"] != row["value"]
    default = f" (default {row['default']!r})" if changed else ""
    return f"{row['name']} = {row['value']!r}{default}, conservative {row['conservative']!r}"


def _about(row: Mapping[str, Any]) -> list[str]:
    where = [
        row["device"] and f"on {row['device']}",
        BACKENDS.get(row["backend"]),
        f"since {row['since']}",
        row["performance"] and "changes speed",
        row["env"] and f"${row['env']}",
    ]
    return [row["effect"], " · ".join(filter(None, where)), row["reference"]]
