"""The curated flags of configs/flags.yaml, joined with what the installed torch says of them, and as a table
for a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml
from rich.padding import Padding
from rich.text import Text

from bisector import processes
from bisector.core.backends import INDUCTOR, is_beyond
from bisector.core.kinds import KINDS
from bisector.errors import BadOption, MissingTool
from bisector.report.literal import on_page

from ..display import to_stdout
from ..environment import IMPORT_S
from ..output import width, write_json

_PULL = "https://github.com/pytorch/pytorch/pull/"
_BLOB = "https://github.com/pytorch/pytorch/blob/v{}/{}"
ABSENT: Mapping[str, Any] = {"type": None, "default": None, "value": None, "env": None, "implied_by": None}
DEVICES = ("cpu", "cuda")
_READ_AT = "2.13.0"  # the release whose files the catalogue refers to where it names no other
# The first backend that reads a module's flags.
_RUNGS = {"compile": "eager", "dynamo": "eager", "functorch": "aot_eager"}
BACKENDS = {"cpp": "C++ code", "triton": "Triton code", "aten": "library calls"}


@dataclass(frozen=True)
class Flag:
    """One entry of configs/flags.yaml, which says what each field means."""

    name: str
    family: str
    conservative: Any
    effect: str
    backend: str
    since: str
    reference: str
    kinds: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    device: str | None = None
    outside_code: bool = False
    performance: bool = False

    @property
    def of_script(self) -> bool:
        """Whether it governs nothing but what is decided where a whole script runs."""
        return bool(self.kinds) and all(KINDS[kind].rungs for kind in self.kinds)

    @property
    def url(self) -> str:
        """The public page that the reference stands for."""
        if self.reference.startswith("#"):
            return _PULL + self.reference[1:]
        release, colon, path = self.reference.partition(":")
        return _BLOB.format(release, path) if colon else _BLOB.format(_READ_AT, self.reference)


@dataclass(frozen=True)
class CatalogueFilter:
    """What of the catalogue to show. family, device: None for any."""

    family: str | None = None
    device: str | None = None


@cache
def _read() -> tuple[Flag, ...]:
    text = resources.files("bisector.configs").joinpath("flags.yaml").read_text()
    entries: list[dict[str, Any]] = yaml.safe_load(text)
    return tuple(Flag(**e | {k: tuple(e.get(k, ())) for k in ("kinds", "values")}) for e in entries)


def catalogue(devices: Sequence[str] | None = None) -> list[Flag]:
    """The curated flags, in the order of the file; of these what concerns the devices, if they are given."""
    return [f for f in _read() if devices is None or f.device is None or f.device in devices]


def of_call(devices: Sequence[str]) -> list[Flag]:
    """What acts on a captured graph: not what Dynamo alone, or a cache, does where a script runs."""
    return [flag for flag in catalogue(devices) if not flag.of_script]


def of_script(devices: Sequence[str], rung: str) -> list[Flag]:
    """What acts on a script whose backend is that rung."""
    def read_by(flag: Flag) -> str:
        return _RUNGS.get(flag.name.partition(".")[0], INDUCTOR)

    return [flag for flag in catalogue(devices) if not is_beyond(read_by(flag), rung)]


def families() -> list[str]:
    return list(dict.fromkeys(flag.family for flag in _read()))


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
