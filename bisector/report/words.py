"""The sentences that every report shares: verdict classes, backends, decisions, numbers.

All functions read the document result.json (docs/result-schema.md) and change nothing. The meaning of the
words is in docs/words.md; a test holds that page and the tables here together. The words of each kind of
decision are in core/kinds.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bisector.core.decision import DecisionId
from bisector.core.fix_source import python_literal
from bisector.core.kinds import KINDS
from bisector.core.notes import CallName
from bisector.core.verdict import Rule, VerdictClass

from .document import Document, Fix, VerdictPart

CLASS_SENTENCES = {
    "agrees": "Eager and compiled agree within the tolerance.",
    "compiled-worse": "The compiled result is farther from the float64 reference than eager's: likely a "
    "compiler bug.",
    "compiled-better": "The compiled result is nearer to the float64 reference than eager's: a difference, "
    "but not a bug by itself.",
    "equally-accurate": "Neither eager nor compiled is farther from the float64 reference than rounding "
    "explains: each rounds in its own way, which is not a bug by itself.",
    "amplified-rounding": "The two runs differ by ordinary rounding, and a later operation (a step, a "
    "threshold, a cancellation) makes that large: not a bug by itself.",
    "elided-rounding": "A cast to a narrower dtype, which the program wrote, is not executed: a float64 "
    "reference cannot decide this.",
    "raises": "One of eager and compiled raises an exception that the other does not.",
    "random": "Compiled uses another random stream than eager; the two agree when it uses eager's.",
    "undefined": "Torch leaves the result undefined, of an operation for these values, or of an operator "
    "that does other than it declares, so that both may be right.",
    "own-difference": "The script differs by itself: it fails with compilation off too, or asks whether it "
    "is compiled and does something else then. Otherwise eager and compiled agree.",
    "nondeterministic": "The same run gives other values when it is repeated, so a difference between "
    "eager and compiled proves nothing.",
    "unresolved": "It could not be told whether eager and compiled agree.",
}
OF_ANOTHER_KIND = (
    "The compiled result is of another kind than eager's, which says what the program means: likely a "
    "compiler bug."
)
BEYOND_ROUNDING = "The compiled result is off by more than rounding explains: likely a compiler bug."
WHICH_UNKNOWN = "Eager and compiled differ; which of them is right could not be told."


def is_of_another_kind(verdict: VerdictPart) -> bool:
    """Whether the two differ in shape, dtype, memory or layout, or nothing tells how far they are off."""
    measured = any(output.rms_error_compiled is not None for output in verdict.outputs)
    by_values = verdict.rule is Rule.ACCURACY or is_beyond_rounding(verdict)
    return verdict.rule is Rule.KIND or not (measured or by_values)


BEYOND_RULES = (
    Rule.NODE, Rule.EXACT_DTYPE, Rule.EVERY_RUN, Rule.BEYOND_NUDGES, Rule.EAGERS_KERNELS, Rule.GROWTH,
    Rule.SCRIPT,
)  # fmt: skip


def is_beyond_rounding(verdict: VerdictPart) -> bool:
    """Whether a node, a dtype without rounding, runs that vary or what a script does besides its values
    showed that this is more than rounding."""
    return verdict.rule in BEYOND_RULES


def class_sentence(verdict: VerdictPart) -> str:
    """What the class of a verdict means. Of a whole script, and of a shape, no float64 reference tells."""
    if verdict.class_ is VerdictClass.COMPILED_WORSE and is_of_another_kind(verdict):
        return OF_ANOTHER_KIND
    if verdict.class_ is VerdictClass.COMPILED_WORSE and is_beyond_rounding(verdict):
        return BEYOND_ROUNDING
    if verdict.class_ is VerdictClass.UNRESOLVED and verdict.first_bad_backend is not None:
        return WHICH_UNKNOWN
    return CLASS_SENTENCES[verdict.class_.value]


BACKEND_SENTENCES = {
    "eager": "Dynamo's graph, run op by op",
    "aot_eager": "the graph after AOTAutograd, run op by op",
    "aot_eager_decomp_partition": "the graph after decompositions and partitioning, run op by op",
    "inductor": "its lowering and code",
    "custom": "the script's own backend",
}

def number(value: float | None) -> str:
    """A measured number in three digits; counts below ten million in full; null is "?"."""
    if value is None:
        return "?"
    if isinstance(value, int) and abs(value) < 10_000_000:
        return f"{value:,}"
    return f"{value:.3g}"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage; 0 % and 100 % are given only where they are exact."""
    if fraction is None:
        return "?"
    if 0 < fraction < 0.01:
        return "<1%"
    if 0.99 < fraction < 1:
        return ">99%"
    return f"{fraction:.0%}"


def tensor(dtype: str, shape: Iterable[int]) -> str:
    """`float32[64, 4]`, as torch's own logs write it."""
    return f"{dtype.removeprefix('torch.')}[{', '.join(str(size) for size in shape)}]"


def conjunction(items: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {word} ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def count(n: int, noun: str) -> str:
    """`1 probe`, `2 probes`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def plural(noun: str) -> str:
    """`graph passes`, `pattern matches`, `elided casts`."""
    return f"{noun}es" if noun.endswith(("s", "ch", "sh", "x")) else f"{noun}s"


def file_name(path: str) -> str:
    """A path without its folders."""
    return re.split(r"[\\/]", path)[-1]


def stopped(text: str) -> str:
    """The text with a full stop last. It may start with the name of a node, so it gets no capital first."""
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."


def short_decision(decision_id: DecisionId) -> str:
    """A decision in a few words: "the FMA contraction of `mul`"."""
    known = KINDS.get(decision_id.kind)
    if known is None:
        return f"`{decision_id}`"
    detail = decision_id.detail
    if known.phrase:
        node = re.sub(r"^call(\d+)$", r"call \1", decision_id.node)
        return known.phrase.format(detail=detail, node=node)
    if known.about_graph:
        return f"the {known.noun} `{detail}`"
    return f"the {known.instances.get(detail, known.noun)} of `{decision_id.node}`"


def fix_title(fix: Fix) -> str:
    """A fix in one phrase."""
    members = fix.id.split(" + ")
    if fix.kind == "flag" and fix.set_:
        return ", ".join(f"{name} = {python_literal(value)}" for name, value in fix.set_.items())
    if fix.kind == "backend":
        return f"the backend {fix.id.removeprefix('backend=')}"
    if fix.kind == "decision":
        return f"without {conjunction([short_decision(DecisionId(member)) for member in members])}"
    names = conjunction(list(dict.fromkeys(DecisionId(member).detail for member in members)))
    title = {
        "pass": "without the pass {}",
        "lowering": "the ATen kernel for every {}",
        "decomposition": "no decomposition of {}",
    }.get(fix.kind, "{}")
    return title.format(names)


def decision_sentence(result: Document, decision_id: DecisionId) -> str:
    """The decision's own sentence; where the run left none, what its kind means."""
    described = result.decisions.get(decision_id)
    kind = KINDS.get(decision_id.kind)
    return stopped(described.text if described else "") or (kind.sentence if kind else "")


def decision_where(result: Document, decision_id: DecisionId) -> str:
    """The user's `file:line` of a decision, or an empty string."""
    described = result.decisions.get(decision_id)
    return described.where if described else ""


def decision_source(result: Document, decision_id: DecisionId) -> str:
    """Where torch writes the formula of a decision, in a sentence; empty where it is not known."""
    described = result.decisions.get(decision_id)
    return f"Its formula is in {described.source}." if described and described.source else ""


def named(call: CallName) -> str:
    """A call of the script, as a sentence names it."""
    return f"call {call.number} (`{call.entry}`)"
