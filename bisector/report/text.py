"""The report for the terminal: the answer first, then the numbers, the reason, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rich.text import Text

from bisector.report import answer, builds, facts, flags
from bisector.report.nearest import nearest_sentence
from bisector.report.page import Page
from bisector.report.words import (
    CLASS_SENTENCES,
    Result,
    bar,
    count,
    decision_sentence,
    decision_source,
    decision_where,
    fix_title,
    number,
    percent,
    short_decision,
    stopped,
)

MAX_OUTPUTS = 8  # rows of the table of outputs; result.json has them all
MAX_FIXES = 5  # they are ranked: who scrolls past five reads result.json


def render(result: Result, width: int, color: bool) -> str:
    """The text of a result at a terminal width; with color, ANSI sequences.

    Lines that are there to be copied are never wrapped and so can be longer than `width`.
    """
    page = Page(width, color)
    style = {"agrees": "green", "compiled-worse": "red"}.get(result["verdict"]["class"], "yellow")
    page.headline(answer.answer(result), style)
    labels = _labels(result)
    _verdict(page, result)
    _causes(page, result, labels)
    _repairs(page, result, labels)
    _shares(page, result, labels)
    _places(page, result)
    _fixes(page, result)
    flags.tried(page, result)
    flags.compared(page, result)
    _minimal(page, result)
    builds.section(page, result)
    _unknown(page, result)
    _files(page, result)
    _cost(page, result)
    return page.text()


def _verdict(page: Page, result: Result) -> None:
    verdict = result["verdict"]
    differing = facts.differing_outputs(result)
    if verdict["class"] == "agrees" and not differing:
        return
    page.heading("Verdict", verdict["class"])
    page.paragraph(CLASS_SENTENCES[verdict["class"]])
    if verdict["reason"] and verdict["reason"] not in answer.answer(result):
        page.paragraph(stopped(verdict["reason"]))
    if differing:
        header, rows, numeric = facts.outputs_table(differing[:MAX_OUTPUTS])
        page.table([[Text(cell) for cell in row] for row in rows], header, numeric)
        equal = len(verdict["outputs"]) - len(differing)
        if len(differing) > MAX_OUTPUTS:
            page.paragraph((f"{len(differing) - MAX_OUTPUTS} more outputs differ: see result.json.", "dim"))
        if equal:
            page.paragraph((f"Equal bit for bit: {count(equal, 'other output')}.", "dim"))
    for line in facts.verdict_lines(result):
        page.paragraph(line)


def _labels(result: Result) -> dict[str, str]:
    """Decision ID -> the number by which this page refers to it, in the order of mention."""
    sets = [entry["decisions"] for entry in (*result["causes"], *result["repairs"])]
    members = dict.fromkeys(member for members in sets for member in members)
    return {member: f"[{position}]" for position, member in enumerate(members, 1)}


def _causes(page: Page, result: Result, labels: Mapping[str, str]) -> None:
    if not result["causes"]:
        return
    page.heading("Why", answer.cause_heading(result["causes"]))
    shown: set[str] = set()
    for cause in result["causes"]:
        several = len(cause["decisions"]) > 1
        if several and len(result["causes"]) > 1:
            page.paragraph("These together:")
        for member in cause["decisions"]:
            _decision(page, result, member, labels, again=member in shown)
            shown.add(member)
        style, indent = "dim" if cause["confirmed"] else "yellow", 2 if several else 6
        page.paragraph((answer.cause_evidence(cause), style), indent=indent)
        if answer.blames_formula(cause):
            page.paragraph(answer.FORMULA, indent=indent)


def _repairs(page: Page, result: Result, labels: Mapping[str, str]) -> None:
    if not result["repairs"]:
        return
    page.heading("Repairs", "what to deny over the default compile")
    explained = {member for cause in result["causes"] for member in cause["decisions"]}
    for member in labels:
        if member not in explained:
            _decision(page, result, member, labels)
    order = list(labels)
    repairs = sorted(result["repairs"], key=lambda repair: order.index(repair["decisions"][0]))
    for line in answer.repair_lines(repairs, lambda member: f"{short_decision(member)} {labels[member]}"):
        page.paragraph(line)
    if result.get("confirmation"):
        page.paragraph((answer.confirmation_sentence(result), "dim"))


def _shares(page: Page, result: Result, labels: Mapping[str, str]) -> None:
    shares = result.get("graded")
    if not shares:
        return
    page.heading("Shares", "what each removes, denied alone; what it leaves, with all others denied")
    rows = []
    for share in shares:
        removed, left = share["removed_fraction"], share["left_fraction"]
        cells = (bar(removed), percent(removed), "-" if left is None else percent(left))
        name = f"{share['decision']} {labels.get(share['decision'], '')}".strip()
        rows.append([*map(Text, cells), Text(name, style="cyan")])
    page.table(rows, ("removed", "", "left", "decision"), right=frozenset({1, 2}))
    page.paragraph(answer.shares_sentence(result))


def _decision(
    page: Page, result: Result, decision_id: str, labels: Mapping[str, str], again: bool = False
) -> None:
    where = decision_where(result, decision_id)
    page.item(labels[decision_id], (decision_id, "cyan"), (f"  {where}" if where else "", "magenta"))
    said = [decision_sentence(result, decision_id), decision_source(result, decision_id)]
    page.paragraph("As above." if again else " ".join(filter(None, said)), indent=6)


def _places(page: Page, result: Result) -> None:
    if not result.get("places"):
        return
    page.heading("Where", "a place, not a cause")
    for place in result["places"]:
        where = decision_where(result, place)
        page.item("-", (place, "cyan"), (f"  {where}" if where else "", "magenta"))
    page.paragraph(answer.PLACE)


def _fixes(page: Page, result: Result) -> None:
    if not result["fixes"]:
        return
    page.heading("Fixes", "each alone makes the outputs agree; any one line of a fix will do")
    for position, fix in enumerate(result["fixes"][:MAX_FIXES], 1):
        page.item(f"{position}.", (fix_title(fix), "bold green" if fix["confirmed"] else "bold yellow"))
        page.paragraph((facts.fix_facts(fix), "dim"), indent=5)
        lines = fix["paste"]
        for line in lines:
            page.verbatim(line, indent=7)
        if not lines:
            page.paragraph("Plain torch has no setting for this.", indent=7)
    if len(result["fixes"]) > MAX_FIXES:
        page.paragraph((f"{len(result['fixes']) - MAX_FIXES} more in result.json.", "dim"))


def _minimal(page: Page, result: Result) -> None:
    minimal = result["minimal"]
    if not minimal:
        return
    page.heading("Minimal case", facts.minimal_line(minimal))
    page.paragraph(", ".join(minimal["ops"]))
    if minimal.get("graph"):
        page.verbatim(minimal["graph"], indent=4)
    if said := nearest_sentence(result):
        page.paragraph(said)
        page.verbatim("\n".join(result["neighbour"].get("diff", ())), indent=4)


def _unknown(page: Page, result: Result) -> None:
    unknown = answer.not_established(result)
    if unknown:
        page.heading("Not established")
    for line in unknown:
        page.item("-", (line, "yellow"))
    if result["stopped_because"]:
        page.verbatim(f"To go on: numbisect resume {shlex.quote(result['run'])}", indent=4)
    if result.get("text_notes"):
        page.heading("Notes")
    for line in result.get("text_notes", []):
        page.item("-", stopped(line))


def _files(page: Page, result: Result) -> None:
    page.heading("Files", f"in {result['run']}")
    files = [
        (result["repro"], "stands alone; exits 1 while it diverges; --fixed applies the best fix"),
        (result.get("test"), "for pytest; fails while it diverges"),
        ((result["neighbour"] or {}).get("artifact_diff"), "the code of the nearest case that agrees"),
        (result["report_markdown"], "to paste into an issue"),
        (result["report_html"], "to read in a browser"),
        ("result.json", "all of this, for scripts"),
    ]
    page.table([[Text(name), Text(use, style="dim")] for name, use in files if name])


def _cost(page: Page, result: Result) -> None:
    page.heading("Cost", facts.probes_line(result))
    seconds = {name: took for name, took in result["seconds"].items() if name != "total" and took}
    if seconds:
        said = ", ".join(f"{name} {number(took)}" for name, took in seconds.items())
        page.paragraph((f"Seconds: {said}.", "dim"))
    names = ("torch", "triton", "python", "isa", "gpu", "cxx")
    known = [
        f"{name} {value}" if name in ("torch", "triton", "python") else value
        for name, value in facts.versions(result, names)
    ]
    page.paragraph((", ".join(known), "dim"))
