"""The report's words for a family: many decisions of a large graph that carry the divergence together."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.decision import Pattern
from bisector.core.kinds import KINDS
from bisector.core.search.families import REST

from .blocks import Bar, Block, Paragraph, Section, Span, Table, Tone, cell
from .document import Carried, Document, Family
from .words import conjunction, count, fix_title, percent, plural

MOST_ROWS = 8
MOST_DETAILS = 2  # of one kind, in the first line
LITTLE = 0.01  # of the difference
SHARES = (
    "alone: how much of the mean square of the difference, at the outputs that diverge, the errors of this "
    "part make by themselves; without: how much all the others make. Eager was run with these errors added."
)
ADD_UP = {
    True: "The shares add up: the errors are independent of each other.",
    False: "The shares do not add up: an error anywhere makes others as large.",
}


def because(result: Document, family: Family) -> str:
    """The rest of the first line: which decisions, whether a half of them would do, the flag for all."""
    where = f"{_named(family)} at {count(family.places, 'place')}"
    flag = next((fix for fix in result.fixes if fix.confirmed and fix.kind == "flag"), None)
    removes = f"; {fix_title(flag)} removes all of it" if flag else ""
    if set(family.kinds) == {"lower"}:
        return f"; it arises at {where}, but which decision there is to blame is not known{removes}"
    sure = "because of" if family.confirmed else "probably because of"
    if family.removed_fraction < 1:
        share = percent(family.removed_fraction)
        rest = removes or "; what carries the rest is not known"
        return f", in part {sure} {where}, which carry {share} of it{rest}"
    halves = "; no half of them is enough" if family.halves else ""
    together = " together" if family.places > 1 else ""
    return f", {sure} {where}{together}{halves}{removes}"


def _named(family: Family) -> str:
    """The groups by the nouns of their kinds, with what distinguishes those of one kind; of those that carry
    something alone, where that is known."""
    details: dict[str, list[str]] = {}
    at, others = [], []
    alone = family.alone
    for group in sorted(family.groups, key=lambda group: -alone.get(group, 0.0)):
        if alone.get(group, 1.0) < LITTLE:
            continue
        if group == REST:
            others = ["other decisions"]
        elif ":" not in group:
            at.append(f"what is decided at {group}")
        for pattern in map(Pattern, group.split(" + ") if ":" in group else ()):
            known = details.setdefault(pattern.kind, [])
            known += [d for d in [pattern.detail] if d and d not in known]
    named = []
    for kind, which in details.items():
        more = [f"{len(which) - MOST_DETAILS} more"] if len(which) > MOST_DETAILS else []
        listed = ", ".join([*which[:MOST_DETAILS], *more])
        named.append(plural(KINDS[kind].noun) + (f" ({listed})" if listed else ""))
    return conjunction([*named, *at, *others])


def section(result: Document) -> Section | None:
    """Where the decisions are, and what they and the parts of the graph carry; None without a family."""
    family = result.family
    if not family:
        return None
    head = count(family.places, "place") + ("" if family.confirmed else " (not confirmed)")
    blocks: list[Block] = [Paragraph(line) for line in _lines(family)]
    operations = [part for part in family.operations if part.alone is not None]
    for title, parts in (("operation", operations), ("layer", family.layers), ("node", family.nodes)):
        if parts:
            blocks.append(_table(title, parts[:MOST_ROWS]))
            if len(parts) > MOST_ROWS:
                blocks.append(Paragraph(f"{len(parts) - MOST_ROWS} more in result.json.", Tone.QUIET))
    if family.adds_up is not None:
        blocks.append(Paragraph(ADD_UP[family.adds_up]))
    if operations:
        blocks.append(Paragraph(SHARES, Tone.QUIET))
    return Section("Family", tuple(blocks), head)


def _lines(family: Family) -> list[str]:
    lines = []
    if family.halves:
        first, second = map(percent, family.halves)
        lines.append(
            f"Disabling the second half of them alone, in graph order, removes {first} of the difference; "
            f"the first half alone, {second}."
        )
    for group, share in family.alone.items():
        lines.append(f"Disabling {_group(group)} alone removes {percent(share)}.")
    for group, share in family.without.items():
        lines.append(f"Disabling all of them but {_group(group)} removes {percent(share)}.")
    return lines


def _group(group: str) -> str:
    """`every elided cast (bfloat16)`; a group without a pattern has the name of an operation."""
    if group == REST:
        return "all other decisions"
    if ":" not in group:
        return f"what is decided at {group}"
    named = []
    for pattern in map(Pattern, group.split(" + ")):
        detail = f" ({pattern.detail})" if pattern.detail else ""
        named.append(f"every {KINDS[pattern.kind].noun}{detail}")
    return conjunction(named)


def _table(title: str, parts: Sequence[Carried]) -> Table:
    made = any(part.made_by for part in parts)
    rows = []
    for part in parts:
        without = "-" if part.without is None else percent(part.without)
        by = [cell(", ".join(part.made_by) or "-")] if made else []
        name = (Span(part.name, Tone.NAME),)
        rows.append((Bar(part.alone), cell(without), cell(str(part.places)), name, *by))
    header = ("alone", "without", "places", title, *(["made by"] if made else []))
    return Table(tuple(rows), header, frozenset({1, 2}))
