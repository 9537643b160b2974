"""The answer about builds as text for the terminal and for an issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from bisector.report.page import Page

Result = Mapping[str, Any]
OUTCOMES = {"PASS": "agrees", "FAIL": "diverges", "UNRESOLVED": "cannot tell"}
SIDES = {
    "python": "The change is on the Python side: the later Python over the earlier binary brings it.",
    "binary": "The change is on the C++ side: the later binary under the earlier Python brings it.",
    "either": "The change is on both sides: the later Python and the later binary bring it each by itself.",
    "both": "The change takes both sides: the later Python over the later binary alone brings it.",
}
CAME = {
    "introduced": "The decision that the fix undoes was introduced by it: {}.",
    "exposed": "The decision that the fix undoes was there before, and is exposed by it: {}.",
    None: "Whether the decision that the fix undoes was there before is not known: {}.",
}
SHORT = 10  # characters of a commit
MOST_COMMITS = 20  # that are listed; result.json has them all


def alone(result: Result) -> bool:
    """Whether the run asked for builds and for nothing else."""
    return result["builds"] is not None and result["minimal"] is None


def render(result: Result, width: int, color: bool) -> str:
    """The text of a run that asked for builds alone, at a terminal width; with color, ANSI sequences."""
    builds = result["builds"]
    page = Page(width, color)
    page.headline(sentence(builds), "green" if builds["confirmed"] else "yellow")
    _rest(page, builds)
    return page.text()


def section(page: Page, result: Result) -> None:
    """The same as a part of a longer report; nothing where builds were not asked."""
    if result["builds"] is not None:
        page.heading("Builds")
        page.paragraph(sentence(result["builds"]))
        _rest(page, result["builds"])


def _rest(page: Page, builds: Mapping[str, Any]) -> None:
    if builds["moved"] is not None:
        page.paragraph(_moved(builds["moved"]))
    for line in _known_of(builds):
        page.paragraph(line)
    if builds["changes"]:
        page.heading("Changes")
        page.table([[Text(cell) for cell in row] for row in changes(builds)], ["before", "after", "then it"])
    if builds["tried"]:
        page.heading("Builds tried", f"{len(builds['tried'])}, in this order")
        page.table([[Text(cell) for cell in row] for row in tried(builds)], ["build", "commit", "outcome"])
    if builds["compare"] or builds["commits"]:
        page.heading("Between them")
        page.verbatim("\n".join([*commits(builds), builds["compare"] or ""]))
    if builds["not_established"]:
        page.heading("Not established by the builds")
        for line in builds["not_established"]:
            page.item("-", line)


def markdown(builds: Mapping[str, Any]) -> str:
    """The same to paste into an issue."""
    lines = [f"**{sentence(builds)}**", ""]
    if builds["moved"] is not None:
        lines += [_moved(builds["moved"]), ""]
    for line in _known_of(builds):
        lines += [line, ""]
    lines += ["| build | commit | outcome |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in tried(builds)]
    lines += ["", *(f"- {commit}" for commit in commits(builds)), builds["compare"] or ""]
    lines += ["", *(f"- Not established: {line}" for line in builds["not_established"])]
    return "\n".join(lines).rstrip() + "\n"


def sentence(builds: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    before, after = builds["before"], builds["after"]
    if builds["changes"]:
        return f"The outcome changes {len(builds['changes'])} times between the two builds."
    if builds["answer"] is None or before is None or after is None:
        return f"No change is found: {builds['reason'] or 'all builds give the same'}."
    word = "turned on" if builds["looked_for"] == "introduced" else "mended"
    seen = f"{before['name']} {OUTCOMES[before['outcome']]}, {after['name']} {OUTCOMES[after['outcome']]}"
    if builds["confirmed"]:
        return f"The divergence is {word} after {before['name']} and by {after['name']}: {seen}."
    return f"Not confirmed: the divergence seems {word} after {before['name']}: {seen}; {builds['reason']}."


def changes(builds: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    return [[change["before"], change["after"], change["to"]] for change in builds["changes"]]


def tried(builds: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """A row for each build: name, commit, outcome with the reason."""
    return [
        [
            build["name"],
            (build["commit"] or "")[:SHORT],
            ": ".join(filter(None, [OUTCOMES[build["outcome"]], build["reason"]])),
        ]
        for build in builds["tried"]
    ]


def commits(builds: Mapping[str, Any]) -> list[str]:
    """A line for each of the commits that are left, those that touch Inductor first."""
    return [
        " ".join(
            filter(None, [
                commit["sha"][:SHORT],
                commit["title"],
                f"(pull request {commit['pull']})" if commit["pull"] and "(#" not in commit["title"] else "",
                f"[{commit['note']}]" if commit["note"] else "",
            ])
        )
        for commit in builds["commits"][:MOST_COMMITS]
    ]


def _known_of(builds: Mapping[str, Any]) -> list[str]:
    """A line each for the side that the change is on, and for what it did; none for what is not known."""
    side, came = builds["side"], builds["came"]
    lines = [SIDES[side["of"]]] if side and side["of"] else []
    if came is not None:
        lines.append(CAME[came["as"]].format(came["reason"]))
    return lines


def _moved(names: Sequence[str]) -> str:
    if not names:
        return "Inputs, eager and compiled have the same bits in both; only what is compared can differ."
    still = [name for name in ("inputs", "eager", "compiled") if name not in names]
    verb = "has" if len(names) == 1 else "have"
    same = f"; the same bits: {', '.join(still)}" if still else ""
    return f"Between the two {' and '.join(names)} {verb} other bits{same}."
