"""A triage as JSON, Markdown, HTML and text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .rendered import part, printable, templates
from .words import CLASS_SENTENCES


def summary(
    clusters: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]],
    skipped: Sequence[Mapping[str, Any]],
    stopped: str | None,
    status: int,
) -> dict[str, Any]:
    """What triage.json holds."""
    diverging = [one for one in failures if one["outcome"] == "FAIL"]
    return {
        "schema_version": 1,
        "exit_status": status,
        "clusters": list(clusters),
        "failures": list(failures),
        "not_explained": [one["id"] for one in diverging if one["cause"] is None],
        "agree": [one["id"] for one in failures if one["outcome"] == "PASS"],
        "cannot_tell": [one["id"] for one in failures if one["outcome"] == "UNRESOLVED"],
        "skipped": list(skipped),
        "full_runs": sum(one["run"] is not None and not one["known"] for one in failures),
        "probes": sum(one["probes"] for one in failures),
        "seconds": round(sum(one["seconds"] for one in failures), 2),
        "stopped_because": stopped,
    }


def markdown(summary: Mapping[str, Any]) -> str:
    return _rendered("triage.md.jinja", summary)


def html(summary: Mapping[str, Any]) -> str:
    return _rendered("triage.html.jinja", summary)


def text(summary: Mapping[str, Any]) -> str:
    """For the terminal."""
    return _rendered("triage.txt.jinja", summary)


def plain_json(summary: Mapping[str, Any]) -> str:
    return json.dumps(summary, indent=2) + "\n"


# What `numbisect report` prints.
FORMS = {"text": text, "markdown": markdown, "html": html, "json": plain_json}


def _rendered(template: str, summary: Mapping[str, Any]) -> str:
    environment = templates(autoescape=template.endswith(".html.jinja"))
    environment.filters |= {"shown": printable, "counted": _counted}
    by_id = {one["id"]: one for one in summary["failures"]}
    title = f"{_counted(len(summary['failures']), 'failure')}, {_counted(len(summary['clusters']), 'cause')}"
    return environment.get_template(template).render(
        told=summary, by_id=by_id, title=title, sentences=CLASS_SENTENCES, style=part("page.css"),
        most=max((cluster["size"] for cluster in summary["clusters"]), default=1),
    )  # fmt: skip


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
