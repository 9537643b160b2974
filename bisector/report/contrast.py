"""Two configurations of one target, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bisector.core.fix_source import python_literal
from bisector.report.words import conjunction


def contrast_lines(contrast: Mapping[str, Any]) -> list[str]:
    """What the two are to each other, then the settings that make it so."""
    sides = ["as it is", f"under {contrast['with']}"]
    diverging, agreeing = sides if contrast["target"] == "FAIL" else reversed(sides)
    repairs, causes, unknown = contrast["repairs"], contrast["causes"], contrast["unknown"]
    if not (repairs or causes):
        return [f"What makes the difference is not established: {unknown}."]
    lines = [f"The target diverges {diverging} and agrees {agreeing}."]
    if repairs:
        lines.append(f"What makes it agree {diverging}: {_sets(repairs)}.")
    if causes:
        lines.append(f"What makes it diverge {agreeing}: {_sets(causes)}.")
    return lines + ([f"There might be more: {unknown}."] if unknown else [])


def _sets(sets: Sequence[Mapping[str, Any]]) -> str:
    said = [conjunction([f"{n} = {python_literal(v)}" for n, v in settings.items()]) for settings in sets]
    return "; or ".join(said)
