"""The commands that probe (minimize, flags, check): from the parsed command line to the exit status."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisector.core.judge import BudgetSpent
from bisector.errors import INTERRUPTED, BadOption, NumbisectError
from bisector.runner import rundir

from ..subject.targets import recognise
from . import command_line, pipeline
from .build_question import of_range
from .command_line import Against, Options, full_name, read_yaml
from .display import Display, complain
from .output import shown_path, written
from .run import Session

PIPELINES = {"minimize": pipeline.minimize, "flags": pipeline.flags, "check": pipeline.check}
# A probe that takes more than this share of the memory, times the lanes, would drive the machine to swap.
MEMORY_SHARE = 0.8


def probing(command: str, target: str, given: Mapping[str, Any]) -> int:
    """A new run of minimize, flags or check; returns the exit status."""
    recognise(Path(target), given["trust"])
    options = parse_options(command, target, given)
    run = rundir.create(target, given["out"], options.to_json())
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
        session = Session(run, options, display.progress)
        result: dict[str, Any] | None = None
        try:
            result = PIPELINES[options.command](session)
            session.close()
            if options.builds is not None:
                from .builds import builds_command  # needs git, requests and more, which `check` does not

                result = builds_command.beside(run, options.builds, result, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {shown_path(run.path)}")
            result = pipeline.interrupted(session, result)
            if result is None:
                return INTERRUPTED
        finally:
            session.close()
    if lines:
        display.learned({"stage": "result", "result": result})
    status = written(run, result, given)
    others_too = options.every and status != INTERRUPTED
    return _explain_others(run, options, result, given, status) if others_too else status


def _explain_others(
    run: rundir.RunDirectory,
    options: Options,
    result: Mapping[str, Any],
    given: Mapping[str, Any],
    status: int,
) -> int:
    """Each other call that diverges, but for those of the same cause, in a run within the run. The budget is
    for each of them; one that cannot be explained is told, and takes nothing from the others.

    Returns the exit status: that of the first call, or INTERRUPTED.
    """
    for other in result["others"]:
        if other["same_cause"] is True:
            continue
        number = other["call"]
        asked = replace(options, call=number, every=False, builds=None, trace=None)
        try:
            within = rundir.within(run, number, asked.to_json())
            if run_pipeline(within, asked, {**given, "json_path": None}) == INTERRUPTED:
                return INTERRUPTED
        except (NumbisectError, BudgetSpent) as error:
            complain(f"call {number} is not explained: {error}")
    return status


def parse_options(command: str, target: str, given: Mapping[str, Any]) -> Options:
    """The options of one run. Raises BadOption for what does not go together."""
    if (given["rtol"] is None) != (given["atol"] is None):
        raise BadOption("--rtol and --atol go together: give both")
    measures = [name for name in ("rtol", "max_ulp", "cosine") if given[name] is not None]
    if len(measures) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in measures[:2])
        raise BadOption(f"{names} each say what agrees: give one")
    if given["entry"] is not None and given["call"] is not None:
        raise BadOption("--entry and --call each name the call to examine: leave one out")
    profile = command_line.load(given["profile"]) if given["profile"] else command_line.Profile("")
    if given.get("every") and given["json_path"] == "-":
        raise BadOption("--all gives more than one result: name a file for --json, or leave it out")
    if given.get("json_lines") and given["json_path"] == "-":
        raise BadOption("--json-lines and --json - both write to stdout: name a file for --json")
    given = _completed(given, profile.options)
    jobs = given["jobs"] or len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Options(
        target=target,
        command=command,
        rtol=given["rtol"],
        atol=given["atol"],
        max_ulp=given["max_ulp"],
        cosine=given["cosine"],
        profile=profile.name or None,
        tolerances=profile.tolerances,
        signed_zero=given["signed_zero"] or profile.signed_zero,
        config=dict(given["config"]),
        device=given["device"],
        dynamic=given["dynamic"],
        train=given["train"],
        seed=given["seed"],
        repeat=given["repeat"],
        jobs=jobs,
        timeout_s=given["timeout"],
        budget_s=given["budget"],
        memory_bytes=int(total * MEMORY_SHARE / jobs),
        entry=given["entry"],
        call=given["call"],
        every=given.get("every", False),
        trust=given["trust"],
        folder=os.getcwd(),
        against=_against(given.get("against")),
        as_test=given.get("as_test", False),
        builds=of_range(given),
        minimal=not given.get("no_minimize", False),
        trace=given.get("trace"),
    )


def _completed(given: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, and where it says nothing, the profile; their settings together."""
    told = {**given, "repeat": given["repeat"] or profile.get("repeat", 1)}
    told |= {name: profile.get(name) for name in ("train", "dynamic", "seed") if given[name] is None}
    return told | {"config": {**profile.get("config", {}), **dict(given["config"])}}


def _against(path: str | None) -> Against | None:
    """The settings of a YAML file, `FLAG: VALUE` a line. Raises BadOption for any other file."""
    if path is None:
        return None
    hint = "write lines like `inductor.cpp.simdlen: 1`"
    read = read_yaml("--against", path, "name a YAML file of flags", hint)
    if not isinstance(read, dict) or not read or not all(isinstance(name, str) for name in read):
        raise BadOption(f"--against {path}: no flags in it; {hint}")
    return Against(Path(path).name, {full_name(name): value for name, value in read.items()})
