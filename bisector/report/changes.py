"""What can be changed: the fixes, and the flags that were tried."""

from __future__ import annotations

from bisector.core.fix_source import python_literal

from . import facts
from .blocks import Bar, Block, Cell, Folded, Item, Paragraph, Section, Span, Table, Tone, Verbatim, cell
from .document import Document, Fix, FlagTried
from .words import conjunction, count, fix_title

# What a terminal has room for; result.json has all.
MAX_FIXES = 5  # they are ranked
MAX_IDLE_FLAGS = 12  # names of flags that change nothing
_ROLE_TONES = {
    "fix": Tone.GOOD,
    "necessary": Tone.NEEDED,
    "unresolved": Tone.DOUBTFUL,
    "worse": Tone.BAD,
}


def fixes(result: Document) -> Section | None:
    """The best first, each with what it brings and lines to paste."""
    if not result.fixes:
        return None
    blocks: list[Block] = []
    for position, fix in enumerate(result.fixes[:MAX_FIXES], 1):
        how = "\n".join(fix.paste)
        more = Verbatim(how) if how else Paragraph("Plain torch has no setting for this.")
        blocks.append(_item(position, fix, result, more))
    if len(result.fixes) > MAX_FIXES:
        blocks.append(Paragraph(f"{len(result.fixes) - MAX_FIXES} more in result.json.", Tone.QUIET))
    sure = "" if all(fix.confirmed for fix in result.fixes[:MAX_FIXES]) else ", where it is confirmed"
    note = f"each alone makes compiled agree with eager{sure}; any one line of a fix will do"
    return Section("Fixes", tuple(blocks), note, gist=None if _is_walk(result) else _best_fix(result))


def _is_walk(result: Document) -> bool:
    """Whether flags are what was asked for."""
    return not (result.causes or result.repairs or result.minimal)


def _best_fix(result: Document) -> tuple[Block, ...]:
    best = result.fixes[0]
    return (_item(1, best, result, *map(Verbatim, best.paste[:1])),)


def _item(position: int, fix: Fix, result: Document, *more: Block) -> Item:
    tone = Tone.QUIET if fix.confirmed else Tone.DOUBTFUL
    paragraph = Paragraph(facts.fix_facts(fix, result.verdict), tone)
    return Item(f"{position}.", fix_head(fix), body=(paragraph, *more))


def fix_head(fix: Fix) -> Span:
    """What is changed, by its name."""
    return Span(fix_title(fix), Tone.NAME if fix.set_ else Tone.PLAIN)


def flags(result: Document) -> Section | None:
    """Each flag that does something, with what it removes; the rest in a line, and folded."""
    tried = result.flags
    if not tried:
        return None
    idle = [flag for flag in tried if facts.role_words(flag) == "no effect"]
    telling = [flag for flag in tried if flag not in idle]
    blocks: list[Block] = []
    if telling:
        rows = tuple(_flag_row(flag, result) for flag in telling)
        blocks.append(Table(rows, ("removed", "role", "flag")))
    if idle:
        names = [flag.name for flag in idle[:MAX_IDLE_FLAGS]]
        rest = [f"{len(idle) - MAX_IDLE_FLAGS} more"] if len(idle) > MAX_IDLE_FLAGS else []
        blocks.append(Paragraph(f"No effect: {conjunction([*names, *rest])}.", Tone.QUIET))
        if unchanged := sum(flag.told_by == "code" for flag in idle):
            blocks.append(Paragraph(_unchanged_code(unchanged), Tone.QUIET))
        blocks.append(Folded(f"all {count(len(tried), 'flag')}", (_all_flags(result),)))
    note = f"{len(tried)} tried alone; how much of the difference each removes"
    return Section("Flags", tuple(blocks), note, gist=None if _is_walk(result) else ())


def _unchanged_code(flags: int) -> str:
    """Of flags that were judged by the code that they generate."""
    verb = "1 generates identical code and was" if flags == 1 else f"{flags} generate identical code and were"
    return f"Of these {verb} not run."


def _flag_row(flag: FlagTried, result: Document) -> tuple[Cell, ...]:
    role = facts.role_words(flag)
    tone = _ROLE_TONES.get(role, Tone.PLAIN)
    change = Span(f"{flag.name} = {python_literal(flag.tried)}", Tone.NAME)
    was = Span(f"  (was {facts.flag_before(flag, result)})", Tone.QUIET)
    return Bar(flag.removed_fraction, tone), cell(role, tone), (change, was)


def _all_flags(result: Document) -> Table:
    rows = tuple(
        (
            cell(flag.name, Tone.NAME),
            cell(facts.flag_before(flag, result), Tone.NAME),
            cell(python_literal(flag.tried), Tone.NAME),
            cell(flag.outcome.value),
            Bar(flag.removed_fraction),
            cell(facts.role_words(flag)),
        )
        for flag in result.flags
    )
    return Table(rows, ("flag", "was", "tried", "outcome", "removes", "role"), frozenset({4}))
