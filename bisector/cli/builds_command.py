"""`numbisect builds` and the builds of a minimal repro: from the question to `builds` in result.json."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bisector import wire
from bisector.builds.line import Known
from bisector.core.answer import Answer, Result
from bisector.core.cost import Probes, Seconds
from bisector.core.endings import Ending
from bisector.core.found_builds import AskedBuild, BuildStep, FoundBuilds
from bisector.core.ladder import Step
from bisector.core.model import Machine
from bisector.core.notes import NoBuildAsked
from bisector.core.options import FIXED, Question
from bisector.core.outcome import Outcome
from bisector.core.progress import Progress
from bisector.core.reasons import BuildsAlone
from bisector.core.verdict import VerdictClass, decided
from bisector.errors import INTERRUPTED, BadOption, NumbisectError
from bisector.explain import environment
from bisector.explain.build_question import question
from bisector.explain.builds.bisection import Found
from bisector.explain.builds.build_test import BuildTest, TriedBuild
from bisector.explain.builds.search import Search, Searched
from bisector.explain.run import Clock, keep_script
from bisector.report import endings
from bisector.report.builds import because
from bisector.report.notes import words
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory, create

from .display import Display
from .output import shown_path, written

COMPARE = "https://github.com/pytorch/pytorch/compare/{}...{}"
DIGESTS = ("inputs", "eager", "compiled")
BISECT_LOG = "bisect.log"  # for `git bisect replay`


def found_builds(searched: Searched) -> FoundBuilds:
    """`builds` of result.json."""
    part = searched.answer
    question, line, asking, found = part.question, part.line, part.asking, part.found
    ends = None if found.bracket is None else (found.bracket.before, found.bracket.after)
    before, after = (asking.tried.get(name) for name in ends) if ends else (None, None)
    return FoundBuilds(
        looked_for=question.looked_for,
        answer=_answer(line, found),
        before=None if before is None else _asked(before),
        after=None if after is None else _asked(after),
        skipped=() if found.bracket is None else tuple(found.bracket.skipped),
        confirmed=found.confirmed,
        reason="" if found.reason is None else endings.words(found.reason),
        moved=_moved(before, after),
        changed_defaults=part.defaults,
        compare=_compare(before, after),
        steps=tuple(_step(step) for part in searched.parts for step in part.found.steps),
        tried=tuple(map(_asked, searched.tried())),
        commits=() if found.bracket is None else tuple(line.commits(found.bracket)),
        not_established=tuple(_not_established(searched)),
    )


def bisect_log(question: Question, asking: BuildTest) -> str:
    """What was tried as `git bisect replay` reads it, to go on by git's rules where a build is needed."""
    fixed = question.looked_for == FIXED
    old, new = ("diverges", "agrees") if fixed else ("good", "bad")
    terms = {Outcome.PASS: new if fixed else old, Outcome.FAIL: old if fixed else new}
    start = f"git bisect start --term-old={old} --term-new={new}" if fixed else "git bisect start"
    lines = [f"git bisect {terms.get(t.result.outcome, 'skip')} {t.commit}" for t in asking.tried.values()]
    return "\n".join([start, *lines]) + "\n"


def _answer(line: Known, found: Found) -> str | None:
    """How fine it is; None where there is no change."""
    return line.precision(found.bracket) if found.bracket is not None and found.steps else None


def _asked(tried: TriedBuild) -> AskedBuild:
    line = tried.result.line
    digests = {name: line.get(name) for name in DIGESTS} if line else None
    reason = because(tried.result.reason, tried.same_as)
    return AskedBuild(
        tried.name, line.get("torch"), tried.commit, tried.result.outcome, reason, digests
    )


def _moved(before: TriedBuild | None, after: TriedBuild | None) -> tuple[str, ...] | None:
    """Which of inputs, eager and compiled the two builds have other values of; None where it is not known."""
    if before is None or after is None:
        return None
    pairs = {name: (before.result.line.get(name), after.result.line.get(name)) for name in DIGESTS}
    if any(None in pair for pair in pairs.values()):
        return None
    return tuple(name for name, (old, new) in pairs.items() if old != new)


def _compare(before: TriedBuild | None, after: TriedBuild | None) -> str | None:
    ends = [build.commit for build in (before, after) if build is not None and build.commit]
    return COMPARE.format(*ends) if len(set(ends)) == 2 else None


def _step(step: Step) -> BuildStep:
    bracket = step.bracket
    return BuildStep(step.rung, step.candidates, step.ended, bracket.before, bracket.after)


def _not_established(searched: Searched) -> list[str]:
    """What a reader may not take from the answer."""
    part = searched.answer
    bracket = part.found.bracket
    if bracket is None:
        return []
    steps = [step for part in searched.parts for step in part.found.steps]
    notes = [f"{step.rung}: {step.ended}" for step in steps if step.ended]
    notes += map(words, searched.notes)
    if bracket.skipped:
        notes.append(f"these could not tell, so it may be any of them: {', '.join(bracket.skipped)}")
    if part.question.cpu_stubs:
        notes.append("what a GPU gives: CUDA wheels ran on a CPU, with stubs for NVIDIA's libraries")
    return [*notes, *part.line.limits(bracket)]


def builds(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect builds TARGET`; returns the exit status."""
    asked = question(target, given)
    return search(create(target, given["out"], wire.dump_command(asked)), asked, given)


def search(folder: RunDirectory, asked: Question, given: Mapping[str, Any]) -> int:
    """Asks, or goes on asking, in this run directory; returns the exit status."""
    with Display(given["quiet"], given["verbose"], given["no_color"], asked.budget_s) as display:
        try:
            keep_script(folder, Path(asked.target))
            result = run(folder, asked, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {shown_path(folder.path)}")
            return INTERRUPTED
    return written(folder, result, given).exit_status


@dataclass(frozen=True)
class Answered:
    """status: the exit status of `builds`; result: `builds` of result.json; counts: of builds, as probes."""

    status: int
    reason: Ending | None
    result: FoundBuilds
    counts: Probes
    seconds: Seconds


def answered(folder: RunDirectory, asked: Question, progress: Progress) -> Answered:
    """The whole search, in a run directory whose journal nobody else has open."""
    clock = Clock(asked.budget_s)
    with clock.stage("builds"), closing(Journal(folder.journal)) as journal:
        searched = Search(folder, asked, journal, clock.exhausted, progress).run()
    part = searched.answer
    if asked.pytorch_repo:
        folder.write_text(folder.path / BISECT_LOG, bisect_log(part.question, part.asking))
    return Answered(
        part.found.status, part.found.reason, found_builds(searched), _counts(searched), clock.read()
    )


def run(folder: RunDirectory, asked: Question, progress: Progress) -> Result:
    """The result of a run that asks for builds alone."""
    found = answered(folder, asked, progress)
    answer = Answer(
        target=asked.target,
        run=folder.path.name,
        environment=environment.describe(Machine(environment.version("torch"))),
        verdict=decided(VerdictClass.UNRESOLVED, BuildsAlone()),
        builds=found.result,
        stopped_because=found.reason,
    )
    return Result(answer, found.status, found.counts, found.seconds)


def after_minimize(folder: RunDirectory, asked: Question, result: Result, progress: Progress) -> Result:
    """The result of a reduction with the builds of its repro in it; a note says why there are none."""
    answer, seconds = result.answer, result.seconds
    try:
        if answer.repro is None:
            raise BadOption("there is no repro")
        found = answered(folder, replace(asked, target=str(folder.repro)), progress)
    except NumbisectError as error:  # what was found before stands
        return replace(result, answer=answer.noted(NoBuildAsked(str(error))))
    total = round(seconds.total + found.seconds.total, 2)
    return replace(
        result,
        answer=answer.with_builds(found.result),
        seconds=replace(seconds, builds=found.seconds.builds, total=total),
    )


def _counts(searched: Searched) -> Probes:
    """Of the builds, as of probes; `cached` are those that a build of the same commit answered."""
    builds = searched.tried()
    outcomes = [tried.result.outcome for tried in builds]
    known_by_others = sum(tried.same_as is not None for tried in builds)
    return Probes.of(outcomes, known_by_others)
