"""`numbisect flags` without a target: the curated flags, with what the installed torch says of each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.padding import Padding
from rich.text import Text

from bisector import processes
from bisector.core.flags import Flag
from bisector.errors import BadOption, MissingTool
from bisector.explain.environment import IMPORT_S
from bisector.explain.flags.curated import BACKENDS, catalogue, families
from bisector.report.literal import on_page

from .display import to_stdout
from .output import width, write_json

ABSENT: Mapping[str, Any] = {"type": None, "default": None, "value": None, "env": None, "implied_by": None}
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class CatalogueFilter:
    """What of the catalogue to show. family, device: None for any."""

    family: str | None = None
    device: str | None = None


def rows(asked: CatalogueFilter) -> list[dict[str, Any]]:
    """One object for each flag: what is curated, and what this torch says. Raises BadOption for a family or
    a device that there is none of."""
    if asked.family is not None and asked.family not in families():
        raise BadOption(f"--family {asked.family}: there is none; one of: {', '.join(families())}")
    if asked.device not in (None, *DEVICES):
        raise BadOption(f"--device {asked.device}: no flag is about it; one of: {', '.join(DEVICES)}")
    curated = catalogue([asked.device] if asked.device else None)
    shown = [flag for flag in curated if asked.family in (None, flag.family)]
    live = _live([flag.name for flag in shown])
    return [_row(flag, live.get(flag.name)) for flag in shown]


def _row(flag: Flag, live: Mapping[str, Any] | None) -> dict[str, Any]:
    curated = asdict(flag) | {"reference": flag.url, "present": live is not None}
    return curated | dict(ABSENT if live is None else live)


def _live(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    command = processes.module("bisector.inductor.flags.installed", json.dumps(names))
    done = processes.run(command, IMPORT_S)
    if done.status != 0:
        raise MissingTool("torch cannot be imported; `numbisect doctor` says what is wrong")
    found: dict[str, dict[str, Any]] = json.loads(done.out)
    return found


def list_flags(given: Mapping[str, Any]) -> int:
    """The curated flags with what the installed torch says of them."""
    asked = rows(CatalogueFilter(given["family"], given["device"]))
    if given["json_path"] is not None:
        write_json(given["json_path"], asked)
        return 0
    color = sys.stdout.isatty() and not given["no_color"]
    to_stdout(table(asked, width(), color))
    return 0


def table(rows: Sequence[Mapping[str, Any]], columns: int, color: bool) -> str:
    """The flags, a family at a time."""
    console, out = on_page(columns, color)
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
    if row["implied_by"]:
        default = f" (implied by {row['implied_by']})"
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
