"""What the commands do, between the parsed command line and the session."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisector.errors import BadOption, BadTarget
from bisector.report import builds as builds_report
from bisector.report import markdown, text
from bisector.report import triage as triage_report
from bisector.runner import rundir
from bisector.subject.targets import recognise

from . import pipeline, profiles
from .builds import command as builds_command
from .builds.question import Question
from .display import Display, to_stdout
from .flags import catalogue, table
from .options import Against, Options
from .run import Session
from .settings import full_name, read_yaml
from .triage import command as triage_command

PIPELINES = {"minimize": pipeline.minimize, "flags": pipeline.flags, "check": pipeline.check}
# A probe that takes more than this share of the memory, times the lanes, would drive the machine to swap.
MEMORY_SHARE = 0.8
TRIAGE = "numbisect-triage"  # the folder of a triage that is given no other
INTERRUPTED = 130  # the shells' status of a program that Ctrl-C ended
PLAIN_WIDTH = 100  # columns where stdout is no terminal


def probing(command: str, target: str, given: Mapping[str, Any]) -> int:
    """A new run of minimize, flags or check; returns the exit status."""
    recognise(Path(target), given["trust"])
    _check_tolerances(given)
    options = _options(command, target, given)
    run = rundir.create(target, given["out"], options.to_json())
    return _run(run, options, given)


def builds(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect builds TARGET`; returns the exit status."""
    asked = builds_command.question(target, given)
    return _run_builds(rundir.create(target, given["out"], asked.to_json()), asked, given)


def triage(paths: Sequence[str], given: Mapping[str, Any]) -> int:
    """`numbisect triage PATH...`; returns the exit status."""
    _check_tolerances(given)
    if given["entry"] is not None:
        raise BadOption("--entry names the compiled call of one target; triage takes the one that diverges")
    return _triage(paths, _options("minimize", "", given), {**given, "out": given["out"] or TRIAGE})


def _triage(paths: Sequence[str], asked: Options, given: Mapping[str, Any]) -> int:
    with Display(given["quiet"], given["verbose"], given["no_color"], asked.budget_s) as display:
        try:
            told = triage_command.run(paths, asked, given, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {given['out']}")
            return INTERRUPTED
    if given["json_path"] is not None:
        _write_json(given["json_path"], told)
    if given["json_path"] != "-":
        to_stdout(triage_report.text(told))
    return int(told["exit_status"])


def resume(path: str, given: Mapping[str, Any]) -> int:
    """Go on with an earlier run, under its own options; a budget is for what is left."""
    if triage_command.is_triage(path):
        paths, asked = triage_command.reopened(path, given["budget"])
        return _triage(paths, asked, {**given, "out": path, "watch": (), "jobs": None, "ray": None})
    run, raw = rundir.reopen(path)
    if given["again"]:
        run.start_over()
    if raw.get("command") == "builds":
        return _run_builds(run, Question.from_json({**raw, "budget_s": given["budget"]}), given)
    options = Options.from_json({**raw, "budget_s": given["budget"]})
    return _run(run, options, given)


def report(path: str, form: str, no_color: bool) -> int:
    """Print a finished run again, or a triage."""
    if triage_command.is_triage(path):
        to_stdout(triage_report.FORMS[form](triage_command.told(path)))
        return 0
    run, _ = rundir.reopen(path)
    if not run.result.exists():
        raise BadTarget(f"{path}: the run has no result yet; go on with `numbisect resume {path}`")
    result = json.loads(run.result.read_text())
    if form == "json":
        to_stdout(json.dumps(result, indent=2) + "\n")
    else:
        to_stdout((_markdown(run, result) if form == "markdown" else _text(result, no_color)) + "\n")
    return 0


def walk_flags(target: str, given: Mapping[str, Any]) -> int:
    """`numbisect flags TARGET`. Raises BadOption for an option of the catalogue."""
    for option, value in {"family": "family", "all": "every", "unknown": "unknown"}.items():
        if given[value]:
            raise BadOption(f"--{option} is for the catalogue; leave it out, or leave out {target}")
    return probing("flags", target, given)


def list_flags(given: Mapping[str, Any]) -> int:
    """The curated flags with what the installed torch says of them, or what else torch has."""
    asked = catalogue.Asked(given["family"], given["device"], given["every"], given["unknown"])
    rows = catalogue.rows(asked)
    if given["json_path"] is not None:
        _write_json(given["json_path"], rows)
        return 0
    color = sys.stdout.isatty() and not given["no_color"]
    to_stdout(table.table(rows, _width(), color))
    return 0


def _check_tolerances(given: Mapping[str, Any]) -> None:
    if (given["rtol"] is None) != (given["atol"] is None):
        raise BadOption("--rtol and --atol go together: give both")


def _options(command: str, target: str, given: Mapping[str, Any]) -> Options:
    profile = profiles.load(given["profile"]) if given["profile"] else profiles.Profile("")
    given = _completed(given, profile.options)
    jobs = given["jobs"] or len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Options(
        target=target,
        command=command,
        rtol=given["rtol"],
        atol=given["atol"],
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
        trust=given["trust"],
        folder=os.getcwd(),
        against=_against(given.get("against")),
        as_test=given.get("as_test", False),
        builds=builds_command.of_range(given),
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


def _run_builds(run: rundir.RunDirectory, asked: Question, given: Mapping[str, Any]) -> int:
    with Display(given["quiet"], given["verbose"], given["no_color"], asked.budget_s) as display:
        try:
            result = builds_command.run(run, asked, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {_relative(run.path)}")
            return INTERRUPTED
    return _written(run, result, given)


def _run(run: rundir.RunDirectory, options: Options, given: Mapping[str, Any]) -> int:
    with Display(given["quiet"], given["verbose"], given["no_color"], options.budget_s) as display:
        session = Session(run, options, display.progress)
        try:
            result = PIPELINES[options.command](session)
            session.close()
            if options.builds is not None:
                result = builds_command.beside(run, options.builds, result, display.progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {_relative(run.path)}")
            return INTERRUPTED
        finally:
            session.close()
    return _written(run, result, given)


def _written(run: rundir.RunDirectory, result: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    run.write_json(run.result, result)
    run.write_text(run.markdown, _markdown(run, result))
    _print(result, given, run)
    return int(result["exit_status"])


def _markdown(run: rundir.RunDirectory, result: Mapping[str, Any]) -> str:
    if builds_report.alone(result):
        return builds_report.markdown(result["builds"])
    return markdown.render(dict(result), run.repro_text())


def _print(result: Mapping[str, Any], given: Mapping[str, Any], run: rundir.RunDirectory) -> None:
    if given["json_path"] is not None:
        _write_json(given["json_path"], result)
    if given["json_path"] != "-":
        to_stdout(_text({**result, "run": _relative(run.path)}, given["no_color"]) + "\n")


def _text(result: Mapping[str, Any], no_color: bool) -> str:
    color = sys.stdout.isatty() and not no_color and "NO_COLOR" not in os.environ
    render = builds_report.render if builds_report.alone(result) else text.render
    return render(dict(result), _width(), color)


def _width() -> int:
    return min(os.get_terminal_size().columns, 120) if sys.stdout.isatty() else PLAIN_WIDTH


def _write_json(path: str, value: Any) -> None:
    content = json.dumps(value, indent=2)
    if path == "-":
        to_stdout(content + "\n")
        return
    try:
        Path(path).write_text(content + "\n")
    except OSError as error:
        raise BadOption(f"--json {path}: {error.strerror}; name a file you can write") from error


def _relative(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
