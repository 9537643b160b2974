"""A report as one HTML file, which fetches nothing: the answer, the graph, the script and the generated code.

Whatever stands in a name or a text is shown, and means nothing: jinja escapes it, control characters are
spelled out, and the page's own policy lets no script run but the one that is written here.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from bisector.core.followed import FollowedNode

from .blocks import Bar, Medium, Report
from .document import Document
from .graph import HEIGHT, WIDTH, colour, decisions_at, drawings, paths_of, shape_of
from .rendered import part, printable, templates
from .words import file_name, number, percent

MOST_LINES = 2_000  # of a script that is shown
CHART_HEIGHT, LEFT, STEP = 200, 56, 16  # pixels; STEP for each call
MOST_CHARTED = 400  # calls
SHORTEST, LONGEST = 300, 4_000  # pixels of a chart's width
_CODE = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Side:
    """A line of one of two programs. changed: whether the other one lacks it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Chart:
    """The error of each call in the order they run. grid: heights with their labels. line: of an SVG
    polyline. points: x, y, colour, the call and its error in words."""

    width: float
    height: float
    grid: tuple[tuple[float, str], ...]
    line: str
    points: tuple[tuple[float, float, int, str, str], ...]


def render(report: Report, result: Document, script: str | None = None) -> str:
    """The page. script: the text of the target, where it is a file of Python."""
    environment = templates(autoescape=True)
    environment.filters |= {
        "shown": printable, "inline": inline, "percent": percent, "kind": lambda block: type(block).__name__,
        "lines": str.splitlines, "line_class": line_class, "web": web, "anchor": anchor, "clipped": clipped,
        "figure": figure, "shape": shape_of,
    }  # fmt: skip
    environment.tests["bar"] = lambda cell: isinstance(cell, Bar)
    program = part("page.js")
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    best = next((fix for fix in result.fixes if fix.confirmed and fix.paste), None)
    nodes = _nodes(result)
    nearest = result.neighbour
    return environment.get_template("report.html.jinja").render(
        report=report,
        sections=[section for section in report.sections if section.shown is not Medium.TERMINAL],
        target=file_name(result.target),
        paste="\n".join(best.paste[:1]) if best else "",
        repro=result.repro,
        nodes=nodes,
        drawings=drawings(result),
        box_width=WIDTH,
        box_height=HEIGHT,
        chart=_chart(nodes),
        source=_source(script, nodes, result),
        columns=side_by_side(nearest.diff if nearest else ()),
        differs_by=nearest.differs_by if nearest else "",
        script=program,
        script_hash=f"sha256-{digest}",
        style=part("page.css"),
    )


def inline(text: str) -> Markup:
    """With what stands between backticks as code."""
    parts = _CODE.split(printable(text))
    html = [f"<code>{escape(part)}</code>" if at % 2 else str(escape(part)) for at, part in enumerate(parts)]
    return Markup("".join(html))  # every part of it is escaped


def line_class(language: str, line: str) -> str:
    """Of a line of a difference."""
    if language != "diff" or line[:3] in ("+++", "---"):
        return ""
    return {"+": "plus", "-": "minus"}.get(line[:1], "")


def web(url: str) -> str:
    """An address of the web; nothing else is a link."""
    return url if url.startswith(("https://", "http://")) else ""


def anchor(name: str) -> str:
    """The name of a place in the page, for any name of a node or module."""
    return "n-" + "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in name)


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def figure(value: float | None) -> str:
    """A number for a table; empty where there is none."""
    if value is None:
        return ""
    return number(value)


@dataclass(frozen=True)
class ShownNode(FollowedNode):
    """A call with its colour, its decisions, and the modules of which it is the first call."""

    colour: int
    decisions: Sequence[str]
    opens: Sequence[str]


def _nodes(result: Document) -> list[ShownNode]:
    decided = decisions_at(result)
    found, known = [], set[str]()
    for node in result.graph.nodes if result.graph else ():
        opens = [path for path in paths_of(node.module) if path not in known]
        known.update(opens)
        decisions = decided.get(node.name, [])
        found.append(ShownNode(**vars(node), colour=colour(node.ulp), decisions=decisions, opens=opens))
    return found


def _chart(nodes: Sequence[ShownNode]) -> Chart | None:
    """None where fewer than two calls were seen."""
    seen = [node for node in nodes if node.seen or node.ulp][:MOST_CHARTED]
    if len(seen) < 2:
        return None
    largest = max(_height(value) for node in seen for value in (node.ulp, node.carried_ulp))
    top = max(1.0, math.ceil(largest))
    width = min(LONGEST, max(SHORTEST, LEFT + STEP * len(seen)))
    spacing = (width - LEFT - STEP) / max(1, len(seen) - 1)

    def at(value: float | None) -> float:
        return round(CHART_HEIGHT - 14 - _height(value) / top * (CHART_HEIGHT - 28), 1)

    every = max(1, math.ceil(top / 5))
    grid = [(at(0.0), "0")] + [(at(10.0**power), f"1e{power}") for power in range(0, int(top), every)]
    spots = [round(LEFT + place * spacing, 1) for place in range(len(seen))]
    line = " ".join(f"{x},{at(node.carried_ulp)}" for x, node in zip(spots, seen, strict=True))
    points = tuple(
        (x, at(node.ulp), node.colour, node.name, f"{figure(node.ulp)} ulp")
        for x, node in zip(spots, seen, strict=True)
        if node.ulp
    )
    return Chart(width, CHART_HEIGHT, tuple(grid), line, points)


def _height(value: float | None) -> float:
    """On a scale on which 0 is 0 and one unit in the last place is 1; each further 1 is ten times as much."""
    amount = value or 0.0
    if not math.isfinite(amount):
        return 18.0  # above every finite number of units
    return min(18.0, max(0.0, math.log10(amount) + 1.0)) if amount > 0 else 0.0


def _source(
    script: str | None, nodes: Sequence[ShownNode], result: Document
) -> list[tuple[int, str, str, int]]:
    """Lines of the script: number, text, `file:line` as the calls name it, and the worst colour there."""
    lines = (script or "").splitlines()
    if not lines or len(lines) > MOST_LINES:
        return []
    name = file_name(result.target)
    worst: dict[int, tuple[str, int]] = {}
    for node in nodes:
        file, _, line = node.where.rpartition(":")
        if file_name(file) == name and line.isdigit():
            before = worst.get(int(line), ("", 0))[1]
            worst[int(line)] = (node.where, max(before, node.colour))
    return [(at, text, *worst.get(at, ("", 0))) for at, text in enumerate(lines, 1)]


def side_by_side(diff: Sequence[str]) -> list[tuple[Side, Side]]:
    """The lines of a unified difference in two columns."""
    rows: list[tuple[Side, Side]] = []
    gone: list[str] = []
    come: list[str] = []

    def flush() -> None:
        for at in range(max(len(gone), len(come))):
            left, right = (some[at] if at < len(some) else None for some in (gone, come))
            rows.append((Side(left or "", left is not None), Side(right or "", right is not None)))
        gone.clear()
        come.clear()

    for line in diff:
        if line[:3] in ("---", "+++"):
            continue
        if line[:1] == "-":
            gone.append(line[1:])
        elif line[:1] == "+":
            come.append(line[1:])
        else:
            flush()
            text = "⋯" if line.startswith("@@") else line[1:]
            rows.append((Side(text, False), Side(text, False)))
    flush()
    return rows
