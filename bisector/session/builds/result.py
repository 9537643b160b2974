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
from .searching import Compared, Searched, Sided

COMPARE = "https://github.com/pytorch/pytorch/compare/{}...{}"
DIGESTS = ("inputs", "eager", "compiled")


def told(searched: Searched) -> dict[str, Any]:
    """`builds` of result.json."""
    part = searched.answer
    question, line, asking, found = part.question, part.line, part.asking, part.found
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
        "side": searched.sided and _side(searched.sided),
        "came": searched.compared and _came(searched.compared),
        "steps": [_step(step) for part in searched.parts for step in part.found.steps],
        "tried": [_build(tried) for tried in searched.tried()],
        "commits": [] if found.bracket is None else [asdict(c) for c in line.commits(found.bracket)],
        "not_established": _not_established(searched),
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


def _side(sided: Sided) -> dict[str, Any]:
    return {"of": None if sided.side is None else sided.side.value, "reason": sided.reason}


def _came(compared: Compared) -> dict[str, Any]:
    return {"as": None if compared.came is None else compared.came.value, "reason": compared.reason}


def _not_established(searched: Searched) -> list[str]:
    """What a reader may not take from the answer."""
    part = searched.answer
    bracket = part.found.bracket
    if bracket is None:
        return []
    steps = [step for part in searched.parts for step in part.found.steps]
    notes = [f"{step.rung}: {step.ended}" for step in steps if step.ended] + searched.notes
    if bracket.skipped:
        notes.append(f"these could not tell, so it may be any of them: {', '.join(bracket.skipped)}")
    if part.question.cpu_stubs:
        notes.append("what a GPU gives: CUDA wheels ran on a CPU, with stubs for NVIDIA's libraries")
    return [*notes, *part.line.limits(bracket)]
