"""The report as Markdown, to paste into a PyTorch issue.

Names only files, never folders: an issue must not show where things lie on the user's machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bisector.core.fix_source import python_literal
from bisector.report import answer, builds, facts
from bisector.report.contrast import contrast_lines
from bisector.report.markup import code, escape, fenced, table, without_folders, without_folders_in_comments
from bisector.report.nearest import nearest_markdown
from bisector.report.words import (
    CLASS_SENTENCES,
    Result,
    conjunction,
    decision_sentence,
    decision_source,
    decision_where,
    fix_title,
    percent,
    short_decision,
    stopped,
)

INLINE_LINES = 80  # a repro of fewer lines is read in place, a longer one is folded away
MAX_FIXES = 3
_VERSIONS = ("torch", "torch_git", "triton", "python", "os", "cpu", "isa", "gpu", "cxx", "numbisect")


def render(result: Result, repro_source: str | None) -> str:
    """The Markdown text of a result; `repro_source` is the repro file's text, if one was written."""
    sections = [
        [f"# {_title(result)}"],
        [without_folders(answer.answer(result))],
        _triage(result),
        _reproduce(result, repro_source),
        _numbers(result),
        _why(result),
        _workaround(result),
        _flags(result),
        _compared(result),
        _builds(result),
        _unknown(result),
        _versions(result),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _builds(result: Result) -> list[str]:
    return ["## Builds", "", *builds.markdown(result["builds"]).splitlines()] if result["builds"] else []


def _title(result: Result) -> str:
    ops = [op.split(".")[1] if "." in op else op for op in (result["minimal"] or {}).get("ops", [])]
    what = ", ".join(ops[:4]) + (", ..." if len(ops) > 4 else "") if ops else _file_name(result["target"])
    tail = {
        "agrees": "eager and torch.compile agree",
        "compiled-worse": "torch.compile is less accurate than eager",
        "compiled-better": "torch.compile differs from eager (and is more accurate)",
        "equally-accurate": "torch.compile differs from eager (equally accurate)",
        "amplified-rounding": "torch.compile differs from eager (amplified rounding)",
        "nondeterministic": "results differ from run to run",
        "unresolved": "no verdict on torch.compile against eager",
    }[result["verdict"]["class"]]
    backend = result["verdict"]["first_bad_backend"]
    return f"{f'[{backend}] ' if backend else ''}{what}: {tail}"


def _file_name(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]


def _triage(result: Result) -> list[str]:
    """One row that says where the bug belongs: backend, kinds of decision, the decisions, what helps."""
    if not answer.diverges(result):
        return []
    sets = [entry["decisions"] for entry in (result["causes"] or result["repairs"])]
    members = list(dict.fromkeys(member for members in sets for member in members)) or result.get(
        "places", []
    )
    kinds = dict.fromkeys(member.partition(":")[0] for member in members)
    fix = next((_fix_name(fix) for fix in result["fixes"] if fix["confirmed"]), "none known")
    row = [
        result["verdict"]["first_bad_backend"] or "?",
        ", ".join(kinds) or "?",
        "<br>".join(code(member) for member in members) or "?",
        fix,
        result["verdict"]["class"],
    ]
    return table(("Backend", "Kind of decision", "Decisions", "Mitigation", "Verdict"), [row])


def _reproduce(result: Result, repro_source: str | None) -> list[str]:
    if repro_source is None:
        return []
    name = _file_name(result["repro"] or "repro.py")
    lines = [
        "## How to reproduce",
        "",
        f"`python {name}` exits 1 while the results diverge; `python {name} --fixed` applies the best fix "
        "and exits 0 if that repairs it.",
        "",
    ]
    block = fenced(without_folders_in_comments(repro_source), "python")
    if len(repro_source.splitlines()) < INLINE_LINES:
        return [*lines, *block]
    return [*lines, "<details>", f"<summary>{name}</summary>", "", *block, "", "</details>"]


def _numbers(result: Result) -> list[str]:
    verdict = result["verdict"]
    lines = ["## Expected and actual", "", CLASS_SENTENCES[verdict["class"]]]
    if verdict["reason"] and verdict["reason"] not in answer.answer(result):
        lines.append(without_folders(stopped(verdict["reason"])))
    differing = facts.differing_outputs(result)
    if differing:
        header, rows, numeric = facts.outputs_table(differing)
        lines += ["", "Compiled against eager; an rms error is the distance to eager in float64.", ""]
        head, *body = ([escape(cell) for cell in row] for row in (header, *rows))
        lines += table(head, body, numeric)
    more = facts.verdict_lines(result)
    return lines + (["", *_list(more)] if more else [])


def _why(result: Result) -> list[str]:
    members = dict.fromkeys(
        member for entry in (*result["causes"], *result["repairs"]) for member in entry["decisions"]
    )
    described = [_decision(result, member) for member in (*members, *result.get("places", []))]
    if not described:
        return []
    lines = ["## Cause" if members else "## Where", "", *described, ""]
    if len(result["causes"]) > 1:
        lines.append(f"- {answer.cause_heading(result['causes'])}.")
    for cause in result["causes"]:
        names = " and ".join(code(member) for member in cause["decisions"])
        needs = f" ({answer.cause_heading([cause])})" if len(cause["decisions"]) > 1 else ""
        lines.append(f"- Cause: {names}{needs}. {answer.cause_evidence(cause)}")
        lines += [f"- {answer.FORMULA}"] if answer.blames_formula(cause) else []
    repairs = answer.repair_lines(
        result["repairs"], lambda member: f"{short_decision(member)} ({code(member)})"
    )
    lines += [f"- {line}" for line in repairs]
    lines += [f"- {answer.PLACE}"] if result.get("places") else []
    if result.get("confirmation"):
        lines.append(f"- {answer.confirmation_sentence(result)}")
    return [*lines, *_shares(result), *_minimal(result)]


def _shares(result: Result) -> list[str]:
    rows = [
        [code(s["decision"]), percent(s["removed_fraction"]), percent(s["left_fraction"])]
        for s in result.get("graded", [])
    ]
    if not rows:
        return []
    header = ("decision", "denied alone, removes", "all others denied, leaves")
    return ["", *table(header, rows, frozenset({1, 2})), "", answer.shares_sentence(result)]


def _decision(result: Result, decision_id: str) -> str:
    where = decision_where(result, decision_id)
    place = f" ({_file_name(where)})" if where else ""
    said = without_folders(decision_sentence(result, decision_id))
    source = decision_source(result, decision_id)  # a place in torch: nobody's folders
    return f"- {code(decision_id)}{place}: {said}{f' {source}' if source else ''}"


def _minimal(result: Result) -> list[str]:
    minimal = result["minimal"]
    if not minimal:
        return []
    lines = ["", f"Smallest case: {facts.minimal_line(minimal)} ({', '.join(minimal['ops'])})."]
    if minimal.get("graph"):
        lines += ["", *fenced(without_folders_in_comments(minimal["graph"]), "python")]
    return lines + nearest_markdown(result)


def _workaround(result: Result) -> list[str]:
    fixes = [fix for fix in result["fixes"] if fix["confirmed"]][:MAX_FIXES]
    if not fixes:
        return []
    lines = [
        "## Workaround",
        "",
        "Each of these alone makes the outputs agree; any one line of a block will do.",
    ]
    for fix in fixes:
        lines += ["", f"- {_fix_name(fix)}: {facts.fix_facts(fix)}."]
        ways = fix["paste"]
        if ways:
            block = fenced(without_folders("\n".join(ways)))
            lines += ["", *(f"  {line}" for part in block for line in part.splitlines())]
        else:
            lines.append("  Plain torch has no setting for this.")
    return lines


def _fix_name(fix: Mapping[str, Any]) -> str:
    return code(without_folders(fix_title(fix))) if fix["set"] else fix_title(fix)


def _flags(result: Result) -> list[str]:
    if not result["flags"]:
        return []
    rows = [
        [
            code(flag["name"]),
            code(without_folders(facts.flag_before(flag, result))),
            code(without_folders(python_literal(flag["tried"]))),
            flag["outcome"],
            percent(flag["removed_fraction"]),
            facts.role_words(flag),
        ]
        for flag in result["flags"]
    ]
    header = ("flag", "was", "tried", "outcome", "removes", "role")
    lines = table(header, rows, frozenset({4}))
    if len(rows) > 12:  # a longer table hides what follows it
        lines = ["<details>", f"<summary>{len(rows)} flags</summary>", "", *lines, "", "</details>"]
    return ["## Flags tried", "", *lines]


def _compared(result: Result) -> list[str]:
    contrast = result.get("contrast")
    return [f"## Compared with {contrast['with']}", "", *_list(contrast_lines(contrast))] if contrast else []


def _unknown(result: Result) -> list[str]:
    lines = [*answer.not_established(result), *(stopped(note) for note in result.get("text_notes", []))]
    return ["## Not established, and notes", "", *_list(lines)] if lines else []


def _versions(result: Result) -> list[str]:
    known = facts.versions(result, _VERSIONS)
    text = "\n".join(f"{name}: {without_folders(value)}" for name, value in known)
    lines = [f"Found by numbisect with {facts.probes_line(result)}."]
    if kinds := result.get("not_here"):
        lines.append(f"There are no decisions of these kinds on this device: {conjunction(sorted(kinds))}.")
    return ["## Versions", "", *fenced(text), "", " ".join(lines)]


def _list(lines: Iterable[str]) -> list[str]:
    return [f"- {without_folders(line)}" for line in lines]
