"""Why a script differs though no decision in a graph makes it so, in words: what changed since the code that
a call runs was compiled, and which step of a traced function becomes something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.outcome import Outcome
from bisector.core.reuse import Changed, Let, Reuse
from bisector.core.steps import Needed

from .blocks import Paragraph, Section, Tone
from .document import Document, Step, Steps
from .words import conjunction, stopped

MOST_INSIDE = 6  # steps that are told; result.json has all
_MISSED = {
    Let.GUARDS: "no guard of that code checks this",
    Let.CACHE: "the key of the cache does not hold this",
}


def because(result: Document) -> str:
    """What follows the cause in the first line; empty where no reason is known."""
    if (found := next((one for one in result.reuses if one.reasons), None)) is not None:
        changed = conjunction([_changed(some) for some in found.reasons], "or")
        several = sum(cause.confirmed for cause in result.causes) > 1
        at = f"; at call {found.call}" if several else ":"
        return f"{at} {changed} since call {found.since} compiled it, and {_MISSED[found.let]}"
    if (steps := result.steps) is None:
        return ""
    if steps.alone is Outcome.FAIL:
        return f": {conjunction(_each(steps.steps))}"
    places = [f"`{step.code}` ({step.where})" for step in steps.steps]
    return f"; it agrees where Python runs {conjunction(places)}"


def section(result: Document) -> Section | None:
    """All that is known of the reason."""
    known = [Paragraph(_of_reuse(one)) for one in result.reuses if one.reasons]
    if result.steps is not None:
        known += [Paragraph(_of_steps(result.steps)), *_inside(result.steps)]
    unknown = [Paragraph(_of_reuse(one), Tone.DOUBTFUL) for one in result.reuses if not one.reasons]
    return Section("Why", tuple(known + unknown)) if known or unknown else None


def _changed(some: Sequence[Changed]) -> str:
    each = [f"{change.name} changed from {change.was} to {change.now}" for change in some]
    return conjunction(each)


def _of_reuse(found: Reuse) -> str:
    takes = "takes from the cache" if found.let is Let.CACHE else "runs"
    runs = f"Call {found.call} of `{found.entry}` {takes} what call {found.since} compiled"
    if not found.reasons:
        return stopped(f"{runs}. What that code depends on is not known: {found.unknown}")
    undone = conjunction([_undone(some) for some in found.reasons], "or")
    others = f", and not where all else that changed is undone ({', '.join(found.others)})"
    return f"{runs}. Eager gives what it gives where {undone} again{others if found.others else ''}."


def _undone(some: Sequence[Changed]) -> str:
    return conjunction([f"{change.name} is {change.was}" for change in some])


def _each(steps: Sequence[Step]) -> list[str]:
    """Each step with its place, and what it becomes."""
    told = ((step, f"becomes {step.becomes}" if step.becomes else "is traced") for step in steps)
    return [f"`{step.code}` ({step.where}) {what}" for step, what in told]


def _of_steps(found: Steps) -> str:
    these, they = ("these steps", "they do") if len(found.steps) > 1 else ("this step", "it does")
    these = "any of these steps" if found.needed is Needed.ANY else these
    which = f"Where Python runs {these}, compiled agrees with eager: {conjunction(_each(found.steps))}."
    if found.alone is Outcome.FAIL:
        return f"{which} Where Python runs all other steps of the function instead, it still diverges."
    return f"{which} Whether {they} it alone is not known."


def _inside(found: Steps) -> list[Paragraph]:
    """The steps within one that is traced as a whole."""
    told = _each(found.inside[:MOST_INSIDE])
    if not told:
        return []
    left = len(found.inside) - len(told)
    each = conjunction([*told, f"{left} more steps"] if left else told)
    said = "The graph breaks around all of that step only; which of those within it does it is not known"
    return [Paragraph(f"{said}: {each}.")]
