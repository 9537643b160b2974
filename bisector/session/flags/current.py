"""The flags as they stand around the compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..study import Study


@dataclass(frozen=True)
class Setting:
    """One flag. env: the environment variable that torch reads its default from, None where there is none."""

    value: Any
    env: str | None = None


def current(study: Study, names: Sequence[str]) -> dict[str, Setting]:
    """Those of the flags that this torch has."""
    answer = study.lab.ask({"job": "flags", "call": study.call, "names": list(names)})
    if "error" in answer:
        return {}
    return {name: Setting(**found) for name, found in answer.items()}
