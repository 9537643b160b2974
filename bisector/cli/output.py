"""What a command leaves and prints: the files of its run directory, stdout and the file of --json."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisector.core.answer import Result
from bisector.errors import BadOption
from bisector.report import markdown, sections, terminal
from bisector.report.blocks import Detail
from bisector.report.document import Document
from bisector.report.document_json import to_json
from bisector.report.result import document_of
from bisector.runner.rundir import RunDirectory

from .display import to_stdout

PLAIN_WIDTH = 100  # columns where stdout is no terminal


def written(run: RunDirectory, found: Result, given: Mapping[str, Any]) -> Document:
    """Writes the result and its report to the run directory and prints it; returns what result.json holds."""
    result = document_of(found)
    run.write_json(run.result, to_json(result))
    write_reports(run, result)
    _print(result, given, run)
    return result


def write_reports(run: RunDirectory, result: Document) -> None:
    """What is read of a result: to paste into an issue, and in a browser."""
    run.write_text(run.markdown, as_markdown(run, result))
    run.write_text(run.page, as_page(run, result))


def _print(result: Document, given: Mapping[str, Any], run: RunDirectory) -> None:
    if given["json_path"] is not None:
        write_json(given["json_path"], to_json(result))
    if given["json_path"] != "-" and not given.get("json_lines"):
        detail = Detail.ALL if given["verbose"] else Detail.GIST
        to_stdout(as_text(replace(result, run=shown_path(run.path)), given["no_color"], detail) + "\n")


def as_markdown(run: RunDirectory, result: Document) -> str:
    """The report of a run, or of the builds where these alone were asked."""
    return markdown.render(sections.report(result, run.repro_text()))


def as_page(run: RunDirectory, result: Document) -> str:
    """The report of a run for a browser, with the script as it was studied."""
    from bisector.report import page  # and jinja, which nothing needs before

    return page.render(sections.report(result, run.repro_text()), result, run.script_text())


def as_text(result: Document, no_color: bool, detail: Detail) -> str:
    """The same for a terminal, coloured where stdout is one; a gist says what it leaves out."""
    color = sys.stdout.isatty() and not no_color and "NO_COLOR" not in os.environ
    report = sections.report(result)
    text = terminal.render(report, width(), color, detail)
    if detail is Detail.ALL or all(section.gist is None for section in report.sections):
        return text
    return f"{text}More: numbisect report {shlex.quote(result.run)} -v\n"


def width() -> int:
    """Columns of stdout; a terminal that does not know them says 0."""
    known = shutil.get_terminal_size((PLAIN_WIDTH, 0)).columns
    return min(known, 120) if sys.stdout.isatty() else PLAIN_WIDTH


def write_json(path: str, value: Any) -> None:
    """To the file of --json, or to stdout for `-`. Raises BadOption for a file that cannot be written."""
    content = json.dumps(value, indent=2)
    if path == "-":
        to_stdout(content + "\n")
        return
    try:
        Path(path).write_text(content + "\n")
    except OSError as error:
        raise BadOption(f"--json {path}: {error.strerror}; name a file you can write") from error


def shown_path(path: Path) -> str:
    """As a user would type it from here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
