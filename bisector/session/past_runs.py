"""`numbisect resume` and `numbisect report`: an earlier run, of whichever command.

What it takes to go on with a run is imported where its kind is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bisector.errors import BadTarget
from bisector.runner import rundir

from .build_question import Question
from .command_line import Options
from .display import to_stdout
from .output import as_markdown, as_text
from .triage.store import is_triage


def resume(path: str, given: Mapping[str, Any]) -> int:
    """Go on with an earlier run, under its own options; a budget is for what is left."""
    if is_triage(path):
        from .triage import triage_command

        paths, asked = triage_command.reopened(path, given["budget"])
        again = {**given, "out": path, "watch": (), "jobs": None, "ray": None}
        return triage_command.work(paths, asked, again)
    run, raw = rundir.reopen(path)
    if given["again"]:
        run.start_over()
    if raw.get("command") == "builds":
        from .builds import builds_command

        return builds_command.search(run, Question.from_json({**raw, "budget_s": given["budget"]}), given)
    from .probe_commands import run_pipeline

    return run_pipeline(run, Options.from_json({**raw, "budget_s": given["budget"], "trace": None}), given)


def report(path: str, form: str, no_color: bool) -> int:
    """Print a finished run again, or a triage."""
    if is_triage(path):
        from bisector.report import triage as triage_report

        from .triage import triage_command

        to_stdout(triage_report.FORMS[form](triage_command.summary_of(path)))
        return 0
    run, _ = rundir.reopen(path)
    if not run.result.exists():
        raise BadTarget(f"{path}: the run has no result yet; go on with `numbisect resume {path}`")
    result = json.loads(run.result.read_text())
    if form == "json":
        to_stdout(json.dumps(result, indent=2) + "\n")
    else:
        to_stdout((as_markdown(run, result) if form == "markdown" else as_text(result, no_color)) + "\n")
    return 0
