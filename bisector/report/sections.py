"""From a result to the sections of its report: what they say, and in which order."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from bisector.core.decision import DecisionId
from bisector.core.verdict import VerdictClass

from . import builds, by_call, changes, facts, family, labels, sentences, why
from .blocks import (
    Bar,
    Block,
    Cell,
    Folded,
    Item,
    Medium,
    Paragraph,
    Report,
    Section,
    Span,
    Table,
    Tone,
    Verbatim,
    cell,
    items,
)
from .document import Document
from .words import (
    class_sentence,
    conjunction,
    count,
    decision_sentence,
    decision_source,
    decision_where,
    file_name,
    number,
    percent,
    short_decision,
    stopped,
)

# What a terminal has room for; result.json has all.
MAX_OUTPUTS = 8
FEW_OUTPUTS = 3  # where all is to fit a screen
FEW_LINES = 8  # of a minimal case there
INLINE_LINES = 80  # a repro of fewer lines is read in place, a longer one is folded away
_VERSIONS = ("torch", "torch_git", "triton", "python", "os", "cpu", "isa", "gpu", "cxx", "numbisect")
_MAIN_VERSIONS = ("torch", "triton", "python", "isa", "gpu", "cxx")
_TITLES = {
    VerdictClass.AGREES: "eager and torch.compile agree",
    VerdictClass.COMPILED_WORSE: "torch.compile is less accurate than eager",
    VerdictClass.COMPILED_BETTER: "torch.compile differs from eager (and is more accurate)",
    VerdictClass.EQUALLY_ACCURATE: "torch.compile differs from eager (equally accurate)",
    VerdictClass.AMPLIFIED_ROUNDING: "torch.compile differs from eager (amplified rounding)",
    VerdictClass.ELIDED_ROUNDING: "torch.compile leaves out a rounding of the program",
    VerdictClass.UNDEFINED: "torch.compile differs from eager where torch leaves the result undefined",
    VerdictClass.RAISES: "torch.compile and eager do not raise alike",
    VerdictClass.RANDOM: "torch.compile uses another random stream than eager",
    VerdictClass.OWN_DIFFERENCE: "the script differs from itself with compilation off",
    VerdictClass.NONDETERMINISTIC: "results differ from run to run",
    VerdictClass.UNRESOLVED: "no verdict on torch.compile against eager",
}
_ANSWER_TONES = {
    VerdictClass.AGREES: Tone.GOOD,
    VerdictClass.COMPILED_WORSE: Tone.BAD,
    VerdictClass.RAISES: Tone.BAD,
}


def report(result: Document, repro_source: str | None = None) -> Report:
    """The report of a result. repro_source: the text of the repro file, if one was written."""
    if builds.alone(result):
        return builds.report(result)
    tone = _ANSWER_TONES.get(result.verdict.class_, Tone.DOUBTFUL)
    named = _labels(result)
    sections = [
        _summary(result),
        _files(result),
        _reproduction(result, repro_source),
        _verdict(result),
        by_call.section(result),
        _causes(result, named),
        why.section(result),
        _repairs(result, named),
        family.section(result),
        _shares(result, named),
        _places(result),
        changes.fixes(result),
        changes.flags(result),
        _compared(result),
        _minimal(result),
        *(builds.sections(result.builds) if result.builds is not None else ()),
        _not_established(result),
        _notes(result),
        _cost(result),
        labels.section(result),
        _versions(result),
    ]
    answer = Span(sentences.answer(result), tone)
    return Report(_title(result), answer, tuple(section for section in sections if section is not None))


def _title(result: Document) -> str:
    named = result.minimal.ops if result.minimal else ()
    ops = [op.split(".")[1] if "." in op else op for op in named]
    what = ", ".join(ops[:4]) + (", ..." if len(ops) > 4 else "") if ops else file_name(result.target)
    backend = result.verdict.first_bad_backend
    return f"{f'[{backend}] ' if backend else ''}{what}: {_TITLES[result.verdict.class_]}"


def _labels(result: Document) -> dict[DecisionId, str]:
    """The label by which the report refers to a decision, in the order of mention."""
    return {member: f"[{position}]" for position, member in enumerate(result.decided, 1)}


def _summary(result: Document) -> Section | None:
    """A row that says where the bug belongs: backend, kinds of decision, the decisions, what helps."""
    if not result.diverges:
        return None
    sets = [cause.decisions for cause in result.causes] or [repair.decisions for repair in result.repairs]
    found = list(dict.fromkeys(member for members in sets for member in members)) or result.places
    kinds = dict.fromkeys(member.kind for member in found)
    fix = next((changes.fix_head(fix) for fix in result.fixes if fix.confirmed), Span("none known"))
    row: tuple[Cell, ...] = (
        cell(result.verdict.first_bad_backend or "?"),
        cell(", ".join(kinds) or "?"),
        _listed(found),
        (fix,),
        cell(result.verdict.class_.value),
    )
    table = Table((row,), ("Backend", "Kind of decision", "Decisions", "Fix", "Verdict"))
    return Section("Summary", (table,), shown=Medium.PAGE)


def _listed(decisions: Sequence[DecisionId]) -> Cell:
    spans = [span for decision in decisions for span in (Span(", "), Span(decision, Tone.NAME))]
    return tuple(spans[1:]) or cell("?")


def _reproduction(result: Document, source: str | None) -> Section | None:
    if source is None:
        return None
    name = file_name(result.repro or "repro.py")
    usage = f"`python {name}` exits 1 while the results diverge"
    if result.repro_fix:
        usage += f"; `python {name} --fixed` applies the best fix and exits 0 if the results then agree"
    program: Block = Verbatim(source, "python")
    if len(source.splitlines()) >= INLINE_LINES:
        program = Folded(name, (program,))
    return Section("How to reproduce", (Paragraph(f"{usage}."), program), shown=Medium.PAGE)


def _verdict(result: Document) -> Section | None:
    verdict = result.verdict
    differing = verdict.differing
    if verdict.class_ is VerdictClass.AGREES and not differing:
        return None
    blocks: list[Block] = [Paragraph(class_sentence(verdict))]
    gist = list(blocks)
    if verdict.reason and verdict.reason not in sentences.answer(result):
        blocks.append(Paragraph(stopped(verdict.reason)))
        if verdict.rule != "accuracy" or "other_inputs" in verdict.figures:  # else the table has it
            gist.append(blocks[-1])
    if differing:
        blocks.append(facts.outputs_table(differing[:MAX_OUTPUTS]))
        if any(output.rms_error_eager is not None for output in differing):
            blocks.append(Paragraph(sentences.RMS_ERROR, Tone.QUIET))
        equal = len(verdict.outputs) - len(differing)
        if len(differing) > MAX_OUTPUTS:
            more = f"{len(differing) - MAX_OUTPUTS} more outputs differ: see result.json."
            blocks += [
                Paragraph(more, Tone.QUIET),
                Folded(f"{len(differing)} outputs", (facts.outputs_table(differing),)),
            ]
        if equal:
            blocks.append(Paragraph(f"Equal bit for bit: {count(equal, 'other output')}.", Tone.QUIET))
    blocks += map(Paragraph, facts.verdict_lines(result))
    if differing:
        gist.append(facts.outputs_table(differing[:FEW_OUTPUTS]))
    gist += map(Paragraph, facts.trace_lines(result))
    return Section("Verdict", tuple(blocks), verdict.class_.value, gist=tuple(gist))


def _causes(result: Document, labels: Mapping[DecisionId, str]) -> Section | None:
    if not result.causes:
        return None
    blocks: list[Block] = []
    shown: dict[DecisionId, None] = {}
    for cause in result.causes:
        tone = Tone.QUIET if cause.confirmed else Tone.DOUBTFUL
        evidence = [Paragraph(sentences.cause_evidence(cause), tone)]
        if sentences.blames_formula(cause, result.verdict):
            evidence.append(Paragraph(sentences.FORMULA))
        members = cause.decisions
        if len(members) == 1:
            blocks.append(_decision(result, members[0], labels, evidence, again=members[0] in shown))
        else:
            if len(result.causes) > 1:
                blocks.append(Paragraph("These together:"))
            blocks += [_decision(result, member, labels, again=member in shown) for member in members]
            blocks += evidence
        shown |= dict.fromkeys(members)
    gist = tuple(_decision(result, member, labels) for member in shown)
    return Section("Causes", tuple(blocks), sentences.cause_heading(result.causes), gist=gist)


def _decision(
    result: Document,
    decision_id: DecisionId,
    labels: Mapping[DecisionId, str],
    more: list[Paragraph] | None = None,
    again: bool = False,
) -> Item:
    about = [decision_sentence(result, decision_id), decision_source(result, decision_id)]
    text = "As above." if again else " ".join(filter(None, about))
    body = ([Paragraph(text)] if text else []) + (more or [])
    where = decision_where(result, decision_id)
    return Item(labels.get(decision_id, "-"), Span(decision_id, Tone.NAME), where, tuple(body))


def _repairs(result: Document, labels: Mapping[DecisionId, str]) -> Section | None:
    if not result.repairs:
        return None
    explained = {member for cause in result.causes for member in cause.decisions}
    blocks: list[Block] = [_decision(result, member, labels) for member in labels if member not in explained]
    order = list(labels)
    repairs = sorted(result.repairs, key=lambda repair: order.index(repair.decisions[0]))
    lines = sentences.repair_lines(repairs, lambda member: f"{short_decision(member)} {labels[member]}")
    blocks += map(Paragraph, lines)
    if result.confirmation:
        blocks.append(Paragraph(sentences.confirmation_sentence(result), Tone.QUIET))
    gist = () if result.causes else tuple(blocks)
    return Section("Repairs", tuple(blocks), sentences.repair_heading(repairs), gist=gist)


def _shares(result: Document, labels: Mapping[DecisionId, str]) -> Section | None:
    shares = result.graded
    if not shares:
        return None
    rows = []
    for share in shares:
        left = "-" if share.left_fraction is None else percent(share.left_fraction)
        label = labels.get(share.decision)
        name = (Span(share.decision, Tone.NAME), Span(f" {label}" if label else ""))
        rows.append((Bar(share.removed_fraction), cell(left), name))
    table = Table(tuple(rows), ("removed", "left", "decision"), frozenset({1}))
    note = "of the difference: removed with this one disabled, left with all others disabled"
    return Section("Shares", (table, Paragraph(sentences.shares_sentence(result))), note, gist=())


def _places(result: Document) -> Section | None:
    if not result.places:
        return None
    places = [_decision(result, place, {}) for place in result.places]
    return Section("Where", (*places, Paragraph(sentences.PLACE)), "a place, not a cause")


def _compared(result: Document) -> Section | None:
    contrast = result.contrast
    if not contrast:
        return None
    lines = tuple(map(Paragraph, sentences.contrast_lines(contrast)))
    return Section("Compared", lines, f"with {contrast.with_}")


def _minimal(result: Document) -> Section | None:
    minimal = result.minimal
    if not minimal:
        return None
    gist: Block = Paragraph(", ".join(minimal.ops))
    blocks: list[Block] = [gist]
    if minimal.graph:
        blocks.append(Verbatim(minimal.graph, "python"))
        gist = blocks[-1] if len(minimal.graph.splitlines()) <= FEW_LINES else gist
    if nearest := result.neighbour:
        blocks.append(Paragraph(sentences.nearest_sentence(nearest)))
        if nearest.diff:
            blocks.append(Verbatim("\n".join(nearest.diff), "diff"))
    return Section("Minimal case", tuple(blocks), facts.minimal_line(minimal), gist=(gist,))


def _not_established(result: Document) -> Section | None:
    lines = sentences.not_established(result)
    return Section("Not established", items(lines, Tone.DOUBTFUL)) if lines else None


def _notes(result: Document) -> Section | None:
    notes = [stopped(note) for note in result.text_notes]
    return Section("Notes", items(notes)) if notes else None


def _files(result: Document) -> Section:
    fixed = "; --fixed applies the best fix" if result.repro_fix else ""
    files = [
        (result.repro, f"stands alone; exits 1 while it diverges{fixed}"),
        (result.test, "for pytest; fails while it diverges"),
        (
            result.neighbour.artifact_diff if result.neighbour else None,
            "the code of the nearest case that agrees",
        ),
        (result.report_markdown, "to paste into an issue"),
        (result.report_html, "to read in a browser"),
        ("result.json", "all of this, for scripts"),
    ]
    rows = tuple((cell(name), cell(use, Tone.QUIET)) for name, use in files if name)
    read_first = (result.repro, result.test, result.report_markdown, result.report_html)
    few = tuple((cell(name), cell(use, Tone.QUIET)) for name, use in files if name in read_first and name)
    going_on: tuple[Block, ...] = ()
    if result.stopped_because:
        going_on = (Verbatim(f"To go on: numbisect resume {shlex.quote(result.run)}"),)
    gist = (Table(few), *going_on) if few else None
    return Section("Files", (Table(rows), *going_on), f"in {result.run}", Medium.TERMINAL, gist)


def _cost(result: Document) -> Section:
    blocks = []
    seconds = {name: took for name, took in result.seconds.of_stages.items() if took}
    if seconds:
        durations = ", ".join(f"{name} {number(took)}" for name, took in seconds.items())
        blocks.append(Paragraph(f"Seconds: {durations}.", Tone.QUIET))
    known = [
        f"{name} {value}" if name in ("torch", "triton", "python") else value
        for name, value in facts.versions(result, _MAIN_VERSIONS)
    ]
    blocks.append(Paragraph(", ".join(known), Tone.QUIET))
    return Section("Cost", tuple(blocks), facts.probes_line(result), Medium.TERMINAL, ())


def _versions(result: Document) -> Section:
    text = "\n".join(f"{name}: {value}" for name, value in facts.versions(result, _VERSIONS))
    found_by = f"Found by numbisect with {facts.probes_line(result)}."
    if kinds := result.not_here:
        found_by += f" There are no decisions of these kinds here: {conjunction(sorted(kinds))}."
    return Section("Versions", (Verbatim(text), Paragraph(found_by)), shown=Medium.PAGE)
