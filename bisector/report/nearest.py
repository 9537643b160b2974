"""The nearest case that agrees, in words and as the difference of its code."""

from __future__ import annotations

from bisector.report.markup import fenced
from bisector.report.words import Result, stopped


def nearest_sentence(result: Result) -> str:
    """What must change in the minimal case; empty where no neighbour is known."""
    neighbour = result["neighbour"]
    if not neighbour:
        return ""
    said = f"The nearest case that agrees: {stopped(neighbour['differs_by'])}"
    if not neighbour["artifact_diff"]:
        return f"{said} Its generated code is the same, or is not known."
    return f"{said} How its generated code differs: {neighbour['artifact_diff']}"


def nearest_markdown(result: Result) -> list[str]:
    """The same as lines of Markdown, with the difference where it is short."""
    said = nearest_sentence(result)
    if not said:
        return []
    diff = result["neighbour"].get("diff")
    return ["", said, *(["", *fenced("\n".join(diff), "diff")] if diff else [])]
