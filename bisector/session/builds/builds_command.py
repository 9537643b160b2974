"""`numbisect builds`, between the parsed command line and the search."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from bisector.core.model import Outcome
from bisector.core.protocol import Machine
from bisector.core.verdict import Verdict, VerdictClass
from bisector.errors import BadOption, NumbisectError
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory, create

from .. import environment
from ..answer import Answer
from ..clock import Clock
from ..display import Display
from ..output import INTERRUPTED, shown_path, written
from ..result import to_json
from .question import Question, question
from .result import bisect_log, told
from .searching import Progress, Search, Searched

BISECT_LOG = "bisect.log"  # for `git bisect replay`


def builds(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect builds TARGET`; returns the exit status."""
    asked = question(target, given)
    return search(create(target, given["out"], asked.to_json()), asked, given)


def search(folder: RunDirectory, asked: Question, given: Mapping[str, Any]) -> int:
    """Asks, or goes on asking, in this run directory; returns the exit status."""
    with Display(given["quiet"], given["verbose"], given["no_color"], asked.budget_s) as display:
        try:
            result = run(folder, asked, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {shown_path(folder.path)}")
            return INTERRUPTED
    return written(folder, result, given)


@dataclass(frozen=True)
class Answered:
    """status: the exit status of `builds`; counts: of builds, as of probes; told: `builds` of result.json."""

    status: int
    reason: str
    told: Mapping[str, Any]
    counts: Mapping[str, int]
    seconds: Mapping[str, float | None]


def answered(folder: RunDirectory, asked: Question, progress: Progress) -> Answered:
    """The whole search, in a run directory whose journal nobody else has open."""
    clock = Clock(asked.budget_s)
    with clock.stage("builds"), closing(Journal(folder.journal)) as journal:
        searched = Search(folder, asked, journal, clock.exhausted, progress).run()
    part = searched.answer
    if asked.pytorch_repo:
        (folder.path / BISECT_LOG).write_text(bisect_log(part.question, part.asking))
    return Answered(
        part.found.status, part.found.reason, told(searched), _counts(searched), clock.to_json()
    )


def run(folder: RunDirectory, asked: Question, progress: Progress) -> dict[str, Any]:
    """The result dict of a run that asks for builds alone."""
    found = answered(folder, asked, progress)
    answer = Answer(
        target=asked.target,
        run=folder.path.name,
        environment=environment.describe(Machine(environment.version("torch"))),
        verdict=Verdict(VerdictClass.UNRESOLVED, "the builds alone were asked"),
        builds=found.told,
        stopped_because=found.reason or None,
    )
    return to_json(answer, found.status, found.counts, found.seconds)


def beside(
    folder: RunDirectory, asked: Question, result: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """The result of a reduction with the builds of its repro in it; a note says why there are none."""
    try:
        if result["repro"] is None:
            raise BadOption("there is no repro")
        found = answered(folder, replace(asked, target=str(folder.repro)), progress)
    except NumbisectError as error:  # what was found before stands
        return result | {"text_notes": [*result["text_notes"], f"no build was asked: {error}"]}
    total = result["seconds"]["total"] + (found.seconds["total"] or 0.0)
    seconds = {**result["seconds"], "builds": found.seconds["builds"], "total": round(total, 2)}
    return result | {"builds": dict(found.told), "seconds": seconds}


def _counts(searched: Searched) -> dict[str, int]:
    """Of the builds, as of probes; `cached` are those that a build of the same commit answered."""
    builds = searched.tried()
    outcomes = [tried.told.outcome for tried in builds]
    told_by_others = sum(tried.same_as is not None for tried in builds)
    counts = {outcome.value.lower(): outcomes.count(outcome) for outcome in Outcome}
    return {"total": len(outcomes), **counts, "cached": told_by_others}
