"""The curated flags of configs/flags.yaml, and their values in the installed torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from typing import Any

import yaml
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bisector.errors import MissingTool


@dataclass(frozen=True)
class Flag:
    """One entry of configs/flags.yaml. kinds: the kinds of decision that the flag governs; device: the only
    type of device whose code it changes, None for any."""

    name: str
    family: str
    conservative: Any
    effect: str
    kinds: tuple[str, ...] = ()
    device: str | None = None


def catalogue(devices: Sequence[str] | None = None) -> list[Flag]:
    """The curated flags, in the order of the file; of these what concerns the devices, if they are given."""
    text = resources.files("bisector.configs").joinpath("flags.yaml").read_text()
    flags = [Flag(**{**e, "kinds": tuple(e.get("kinds", ()))}) for e in yaml.safe_load(text)]
    return [f for f in flags if devices is None or f.device is None or f.device in devices]


def live_catalogue() -> list[dict[str, Any]]:
    """The curated flags with their values in the installed torch, as rows; `value` is None where absent."""
    flags = catalogue()
    done = subprocess.run(
        [sys.executable, "-m", "bisector.inductor.flag_values", *(f.name for f in flags)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MissingTool("torch cannot be imported; `numbisect doctor` says what is wrong")
    values = json.loads(done.stdout)
    return [
        {
            "name": f.name,
            "family": f.family,
            "conservative": f.conservative,
            "effect": f.effect,
            "present": f.name in values,
            "value": values.get(f.name),
        }
        for f in flags
    ]


def table(rows: Sequence[Mapping[str, Any]], width: int, color: bool) -> str:
    """The catalogue as text, a family at a time."""
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color, highlight=False)
    for family in dict.fromkeys(row["family"] for row in rows):
        console.print(Text(family, style="bold"))
        for row in (r for r in rows if r["family"] == family):
            value = f"{row['value']!r}" if row["present"] else "absent in this torch"
            console.print(Text(f"  {row['name']} = {value}, conservative {row['conservative']!r}"))
            console.print(Padding(Text(row["effect"], style="dim"), (0, 0, 0, 6)))
    return out.getvalue()
