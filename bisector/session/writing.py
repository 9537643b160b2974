"""What the worker is asked to write of a case, with the comment that stands on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bisector.core.case import Case, Wording
from bisector.runner import rundir

from .answer import Answer
from .fixes import Fix
from .study import Study


@dataclass(frozen=True)
class Shown:
    """What a repro shows, and how. fix: that of `--fixed`, None for no fix."""

    case: Case
    wording: Wording
    fix: Fix | None


def written(study: Study, shown: Shown, answer: Answer, decisions: Sequence[str]) -> Mapping[str, Any]:
    """The repro: {"text", "function"}, or {"error"}.

    decisions: IDs whose nodes a reader must find in the function.
    """
    said = {"header": header(answer, shown.fix), "decisions": list(decisions), "file": rundir.REPRO}
    return study.lab.ask({"job": "repro", **_request(study, shown, answer), **said})


def written_as_test(study: Study, shown: Shown, answer: Answer) -> Mapping[str, Any]:
    """The same as a test: {"text", "name"}, where the name is the test's, or {"error"}.

    The header leaves the fix to the test, which says it in lines of Python.
    """
    said = {"header": header(answer, None), "decisions": named(answer, None), "file": rundir.TEST}
    return study.lab.ask({"job": "test", **_request(study, shown, answer), **said})


def _request(study: Study, shown: Shown, answer: Answer) -> dict[str, Any]:
    return {
        "call": study.call,
        "case": shown.case.to_json(),
        "wording": shown.wording.value,
        "train": study.train,
        "criterion": asdict(study.criterion_of(shown.case)),
        "fix": shown.fix.plain if shown.fix else None,
        "seed": 0 if answer.settings.get("inductor.fallback_random") else None,
        "num_threads": None,
    }


def header(answer: Answer, fix: Fix | None) -> list[str]:
    """The comment: what was found, and where it was seen."""
    lines = ["torch.compile differs from eager."]
    if answer.verdict is not None:
        lines.append(f"Verdict: {answer.verdict.kind.value}; {answer.verdict.reason}.")
    for found, confirmed in answer.causes:
        if confirmed:
            lines.append(f"Cause: {' together with '.join(found.members)}")
    for repair in answer.repairs:
        if repair.confirmed:
            lines.append(f"Denying {' and '.join(repair.found.members)} repairs it.")
    if fix is not None:
        lines.append(f"Fix (--fixed): {fix.id}")
    env = answer.environment
    lines.append(f"Seen with torch {env['torch']}, {env['cxx']}, {env['cpu']} ({env['isa']}).")
    return lines


def named(answer: Answer, fix: Fix | None) -> list[str]:
    """The decisions that the comment names."""
    sets = [found for found, confirmed in answer.causes if confirmed]
    sets += [repair.found for repair in answer.repairs if repair.confirmed]
    return [*(member for found in sets for member in found.members), *(fix.decisions if fix else ())]
