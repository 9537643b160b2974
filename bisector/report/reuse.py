"""Why a call that runs what an earlier call compiled gives something else than eager, in words."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.reuse import Changed, Reuse

from .blocks import Paragraph, Section, Tone
from .document import Document
from .words import conjunction, stopped


def because(result: Document) -> str:
    """What follows the cause in the first line; empty where there is no such reason."""
    found = next((one for one in result.reuses if one.reasons), None)
    if found is None:
        return ""
    changed = conjunction([_changed(some) for some in found.reasons], "or")
    return f": {changed} since call {found.since} compiled it, and no guard of that code checks this"


def section(result: Document) -> Section | None:
    """All that is known of the calls that run what earlier ones compiled."""
    if not result.reuses:
        return None
    known = [Paragraph(_sentence(one)) for one in result.reuses if one.reasons]
    unknown = [Paragraph(_sentence(one), Tone.DOUBTFUL) for one in result.reuses if not one.reasons]
    return Section("Why", tuple(known + unknown), "what changed after the compile")


def _changed(some: Sequence[Changed]) -> str:
    each = [f"{change.name} changed from {change.was} to {change.now}" for change in some]
    return conjunction(each)


def _sentence(found: Reuse) -> str:
    runs = f"Call {found.call} of `{found.entry}` runs what call {found.since} compiled"
    if not found.reasons:
        return stopped(f"{runs}. What that code depends on is not known: {found.unknown}")
    undone = conjunction([_undone(some) for some in found.reasons], "or")
    others = f", and not where all else that changed is undone ({conjunction(found.others)})"
    return f"{runs}. Eager gives what it gives where {undone} again{others if found.others else ''}."


def _undone(some: Sequence[Changed]) -> str:
    return conjunction([f"{change.name} is {change.was}" for change in some])
