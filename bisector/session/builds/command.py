"""`numbisect builds`, between the parsed command line and the search."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from bisector.builds.catalogue import INSTALLED
from bisector.core.model import Outcome
from bisector.core.protocol import Machine
from bisector.core.verdict import Verdict, VerdictClass
from bisector.errors import BadOption, BadTarget, NumbisectError
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory

from .. import environment
from ..answer import Answer
from ..clock import Clock
from ..result import to_json
from .question import Question
from .result import bisect_log, told
from .searching import Progress, Search, Searched

# Where uv and pip look first, too: the variables by which users name an index of their own.
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
# What says where builds are, and means nothing where none is asked.
WHERE = {"index_urls": "--index-url", "pytorch_repo": "--pytorch-repo", "cpu_stubs": "--cpu-stubs"}
BISECT_LOG = "bisect.log"  # for `git bisect replay`


def question(target: str, given: Mapping[str, Any]) -> Question:
    """The question of a command line. Raises BadTarget or BadOption for one that cannot be asked."""
    path = Path(target)
    repro = path / "repro.py" if path.is_dir() else path
    if not repro.is_file():
        advice = "name a repro, or the folder of a run that has one"
        raise BadTarget(f"{target}: no repro there; {advice}")
    return Question(
        target=str(repro.resolve()),
        good=given["good"],
        bad=given["bad"],
        looked_for=given["looked_for"],
        every=given["every"],
        index_urls=_index_urls(given),
        repeat=given["repeat"],
        timeout_s=given["timeout"],
        budget_s=given["budget"],
        cache_bytes=given["cache_gib"] << 30,
        prefetch=given["prefetch"],
        cpu_stubs=given["cpu_stubs"],
        build_command=given["build_command"],
        pytorch_repo=_clone(given),
    )


def of_range(given: Mapping[str, Any]) -> Question | None:
    """What `minimize --builds GOOD..BAD` asks of the repro that is yet to be written; None without it.

    Without GOOD releases are walked back; without BAD it is the installed build. Raises BadOption for what
    is no range, and for options that say where builds are when none is asked.
    """
    text = given.get("builds")
    if text is None:
        for option in WHERE:
            if given.get(option):
                advice = "name the builds to ask with --builds GOOD..BAD"
                raise BadOption(f"{WHERE[option]}: {advice}")
        return None
    good, dots, bad = text.partition("..")
    if not dots:
        raise BadOption(f"--builds {text}: not a range; write GOOD..BAD, such as 2.10..installed")
    return Question(
        target="",
        good=good or None,
        bad=bad or INSTALLED,
        index_urls=_index_urls(given),
        cpu_stubs=given["cpu_stubs"],
        pytorch_repo=_clone(given),
    )


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


def _index_urls(given: Mapping[str, Any]) -> tuple[str, ...]:
    named = (os.environ.get(variable) for variable in INDEX_VARIABLES)
    return tuple(given["index_urls"]) or (next(filter(None, named), PYPI_SIMPLE_ENDPOINT),)


def _clone(given: Mapping[str, Any]) -> str | None:
    return given["pytorch_repo"] and str(Path(given["pytorch_repo"]).resolve())
