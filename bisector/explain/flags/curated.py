"""The curated flags of configs/flags.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from bisector.core.backends import INDUCTOR, is_beyond
from bisector.core.flags import Flag

# The first backend that reads a module's flags.
_RUNGS = {"compile": "eager", "dynamo": "eager", "functorch": "aot_eager"}

BACKENDS = {"cpp": "C++ code", "triton": "Triton code", "aten": "library calls"}


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
