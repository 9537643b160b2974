"""What the worker is asked to write of a case, with the comment that stands on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisector.core.case import Case, Wording
from bisector.core.protocol import Failed, Repro, ScriptSpec, TestFile, WriteRepro, WriteTest
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


def written(study: Study, shown: Shown, answer: Answer, decisions: Sequence[str]) -> Repro | Failed:
    """The repro. decisions: IDs whose nodes a reader must find in the function."""
    spec = _spec(study, shown, answer, header(answer, shown.fix), decisions, rundir.REPRO)
    return study.lab.ask(WriteRepro(study.about(shown.case), spec))


def written_as_test(study: Study, shown: Shown, answer: Answer) -> TestFile | Failed:
    """The same as a test. The header leaves the fix to the test, which says it in lines of Python."""
    spec = _spec(study, shown, answer, header(answer, None), named(answer, None), rundir.TEST)
    return study.lab.ask(WriteTest(study.about(shown.case), spec))


def _spec(
    study: Study, shown: Shown, answer: Answer, said: Sequence[str], decisions: Sequence[str], file: str
) -> ScriptSpec:
    return ScriptSpec(
        header=tuple(said),
        decisions=tuple(decisions),
        file=file,
        wording=shown.wording,
        criterion=study.criterion_of(shown.case),
        fix=shown.fix.plain if shown.fix else None,
        seed=0 if answer.settings.get("inductor.fallback_random") else None,
    )


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
            lines.append(f"Disabling {' and '.join(repair.found.members)} makes the outputs agree.")
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
