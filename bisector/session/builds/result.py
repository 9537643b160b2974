"""The answer about builds as the dict that result.json and the report are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bisector.builds.line import Line
from bisector.core.ladder import Change, Step
from bisector.core.model import Outcome

from .asking import Asking, Tried
from .bisecting import Found
from .question import FIXED, Question

COMPARE = "https://github.com/pytorch/pytorch/compare/{}...{}"
DIGESTS = ("inputs", "eager", "compiled")


def told(question: Question, line: Line, asking: Asking, found: Found) -> dict[str, Any]:
    """`builds` of result.json."""
    ends = None if found.bracket is None else (found.bracket.before, found.bracket.after)
    before, after = (asking.tried.get(name) for name in ends) if ends else (None, None)
    return {
        "looked_for": question.looked_for,
        "answer": _answer(line, found),
        "before": _build(before),
        "after": _build(after),
        "skipped": [] if found.bracket is None else list(found.bracket.skipped),
        "confirmed": found.confirmed,
        "reason": found.reason,
        "moved": _moved(before, after),
        "compare": _compare(before, after),
        "changes": [_change(question, change) for change in found.changes],
        "steps": [_step(step) for step in found.steps],
        "tried": [_build(tried) for tried in asking.tried.values()],
        "commits": [] if found.bracket is None else [asdict(c) for c in line.commits(found.bracket)],
        "not_established": _not_established(line, found),
    }


def bisect_log(question: Question, asking: Asking) -> str:
    """What was tried as `git bisect replay` reads it, to go on by git's rules where a build is needed."""
    fixed = question.looked_for == FIXED
    old, new = ("diverges", "agrees") if fixed else ("good", "bad")
    terms = {Outcome.PASS: new if fixed else old, Outcome.FAIL: old if fixed else new}
    start = f"git bisect start --term-old={old} --term-new={new}" if fixed else "git bisect start"
    lines = [f"git bisect {terms.get(t.told.outcome, 'skip')} {t.commit}" for t in asking.tried.values()]
    return "\n".join([start, *lines]) + "\n"


def _answer(line: Line, found: Found) -> str | None:
    """How fine it is; None where there is no change."""
    return line.precision(found.bracket) if found.bracket is not None and found.steps else None


def _build(tried: Tried | None) -> dict[str, Any] | None:
    if tried is None:
        return None
    line = tried.told.line
    return {
        "name": tried.name,
        "torch": line.get("torch"),
        "commit": tried.commit,
        "outcome": tried.told.outcome.value,
        "reason": tried.reason,
        "digests": {name: line.get(name) for name in DIGESTS} if line else None,
    }


def _moved(before: Tried | None, after: Tried | None) -> list[str] | None:
    """Which of inputs, eager and compiled the two builds have other values of; None where it is not known."""
    if before is None or after is None:
        return None
    pairs = {name: (before.told.line.get(name), after.told.line.get(name)) for name in DIGESTS}
    if any(None in pair for pair in pairs.values()):
        return None
    return [name for name, (old, new) in pairs.items() if old != new]


def _compare(before: Tried | None, after: Tried | None) -> str | None:
    if before is None or after is None or not before.commit or not after.commit:
        return None
    return COMPARE.format(before.commit, after.commit)


def _change(question: Question, change: Change) -> dict[str, Any]:
    to = change.to.inverted() if question.looked_for == FIXED else change.to
    return {
        "before": change.before,
        "after": change.after,
        "to": "diverges" if to is Outcome.FAIL else "agrees",
        "skipped": list(change.skipped),
    }


def _step(step: Step) -> dict[str, Any]:
    bracket = step.bracket
    told: Mapping[str, Any] = {"before": bracket.before, "after": bracket.after}
    return {"rung": step.rung, "candidates": step.candidates, "ended": step.ended, **told}


def _not_established(line: Line, found: Found) -> list[str]:
    """What a reader may not take from the answer."""
    if found.bracket is None:
        return []
    notes = [f"{step.rung}: {step.ended}" for step in found.steps if step.ended]
    if found.bracket.skipped:
        notes.append(f"these could not tell, so it may be any of them: {', '.join(found.bracket.skipped)}")
    return [*notes, *line.limits(found.bracket)]
