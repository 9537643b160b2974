"""`numbisect report`: an earlier run, of whichever command, printed again or shown in a browser."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bisector.core.own_folders import PAGE
from bisector.errors import BadTarget
from bisector.explain.triage.store import is_triage
from bisector.report.blocks import Detail
from bisector.report.document import Document
from bisector.report.document_json import from_json, to_json
from bisector.runner import rundir

from .display import to_stdout
from .output import as_markdown, as_page, as_text


def show(path: str) -> int:
    """Show the page of a finished run, or of a triage, in a browser. Raises BadTarget."""
    page = Path(path).resolve() / ("triage.html" if is_triage(path) else PAGE)
    if not is_triage(path):
        run, result = _finished(path)
        run.write_text(run.page, as_page(run, result))
    if not webbrowser.open(page.as_uri()):
        raise BadTarget(f"{page}: no browser was found; open the file in one")
    return 0


def report(path: str, form: str, given: Mapping[str, Any]) -> int:
    """Print a finished run again, or a triage."""
    if is_triage(path):
        from bisector.report import triage as triage_report

        from . import triage_command

        to_stdout(triage_report.FORMS[form](triage_command.summary_of(path)))
        return 0
    run, result = _finished(path)
    detail = Detail.ALL if given["verbose"] else Detail.GIST
    forms = {
        "json": lambda: json.dumps(to_json(result), indent=2) + "\n",
        "markdown": lambda: as_markdown(run, result) + "\n",
        "html": lambda: as_page(run, result),
        "text": lambda: as_text(result, given["no_color"], detail) + "\n",
    }
    to_stdout(forms[form]())
    return 0


def _finished(path: str) -> tuple[rundir.RunDirectory, Document]:
    run, _ = rundir.reopen(path)
    if not run.result.exists():
        raise BadTarget(f"{path}: the run has no result yet; go on with `numbisect resume {path}`")
    return run, from_json(json.loads(run.result.read_text()))
