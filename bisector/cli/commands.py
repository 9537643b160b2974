"""minimize, flags, check, builds and resume: from the parsed command line to the exit status."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from bisector import wire
from bisector.core.answer import Result
from bisector.core.budget import BudgetSpent
from bisector.core.notes import AlsoDiverges, Relation
from bisector.core.options import Options, Question
from bisector.errors import INTERRUPTED, BadOption, NumbisectError
from bisector.explain import pipeline
from bisector.explain.build_question import check_packages, checked
from bisector.explain.run import Session
from bisector.explain.triage.store import is_triage
from bisector.report.document_json import to_json
from bisector.report.reasons import words
from bisector.runner import rundir
from bisector.subject.targets import recognise

from .command_line import parse_options
from .display import Display, complain
from .output import shown_path, written

PIPELINES = {"minimize": pipeline.minimize, "flags": pipeline.flags, "check": pipeline.check}


def probing(command: str, target: str, given: Mapping[str, Any]) -> int:
    """A new run of minimize, flags or check; returns the exit status."""
    recognise(Path(target), given["trust"])
    options = parse_options(command, target, given)
    run = rundir.create(target, given["out"], wire.dump_command(options))
    return run_pipeline(run, options, given)


def walk_flags(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect flags TARGET`. Raises BadOption for an option of the catalogue."""
    if given["family"]:
        raise BadOption(f"--family is for the catalogue; leave it out, or leave out {target}")
    return probing("flags", target, given)


def run_pipeline(run: rundir.RunDirectory, options: Options, given: Mapping[str, Any]) -> int:
    """Runs or goes on with the command of these options; returns the exit status."""
    lines = given.get("json_lines", False)
    with Display(given["quiet"], given["verbose"], given["no_color"], options.budget_s, lines) as display:
        session = Session(run, options, display.progress, words)
        result: Result | None = None
        try:
            result = PIPELINES[options.command](session)
            session.close()
            if options.builds is not None:
                result = _builds_command().after_minimize(run, options.builds, result, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {shown_path(run.path)}")
            result = pipeline.interrupted(session, result)
            if result is None:
                return INTERRUPTED
        finally:
            session.close()
    document = written(run, result, given)
    if lines:
        display.learned({"stage": "result", "result": to_json(document)})
    if not options.every or result.status == INTERRUPTED:
        return result.status
    return _explain_others(run, options, result.answer.others, given, result.status)


def _explain_others(
    run: rundir.RunDirectory,
    options: Options,
    others: Sequence[AlsoDiverges],
    given: Mapping[str, Any],
    status: int,
) -> int:
    """Each other call that diverges, but for those of the same cause, in a run within the run. The budget is
    for each of them; one that cannot be explained is named, and takes nothing from the others.

    Returns the exit status: that of the first call, or INTERRUPTED.
    """
    for other in others:
        if other.cause is Relation.SAME:
            continue
        number = other.number
        asked = replace(options, call=number, every=False, builds=None, trace=None)
        try:
            within = rundir.within(run, number, wire.dump_command(asked))
            if run_pipeline(within, asked, {**given, "json_path": None}) == INTERRUPTED:
                return INTERRUPTED
        except (NumbisectError, BudgetSpent) as error:
            why = words(error.reason) if isinstance(error, BudgetSpent) else str(error)
            complain(f"call {number} is not explained: {why}")
    return status


def builds(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect builds`; returns the exit status."""
    status: int = _builds_command().builds(target, given)
    return status


def _builds_command() -> ModuleType:
    """The module of the command `builds`, which imports git, requests and more. Raises MissingTool where one
    of them is not installed."""
    check_packages()
    from . import builds_command

    return builds_command


def resume(path: str, given: Mapping[str, Any]) -> int:
    """Go on with an earlier run, under its own options; a budget is for what is left."""
    if is_triage(path):
        from . import triage_command

        paths, asked = triage_command.reopened(path, given["budget"])
        again = {**given, "out": path, "watch": (), "jobs": None, "ray": None}
        return triage_command.work(paths, asked, again)
    run, raw = rundir.reopen(path)
    if given["again"]:
        run.start_over()
    if raw.get("command") == "builds":
        question = checked(wire.load(Question, {**raw, "budget_s": given["budget"]}))
        status: int = _builds_command().search(run, question, given)
        return status
    options = wire.load(Options, {**raw, "budget_s": given["budget"], "trace": None})
    return run_pipeline(run, _from_here(options), given)


def _from_here(options: Options) -> Options:
    """With a target that is found from this folder: it was named from the one in which the run began."""
    if options.folder is None or options.folder == os.getcwd():
        return options
    return replace(options, target=str(Path(options.folder) / options.target))
