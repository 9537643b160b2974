"""Whether an issue is worth filing, and the labels of pytorch/pytorch that fit it, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from bisector.core.verdict import Rule, VerdictClass

from .blocks import Block, Medium, Paragraph, Section, Table, Tone, cell
from .document import Document, VerdictPart
from .words import OF_ANOTHER_KIND, is_of_another_kind

# The layers as PyTorch's triage names them, by the first backend that diverges.
_OF_BACKEND = {
    "eager": ("module: dynamo", "Dynamo's graph diverges already, run op by op"),
    "aot_eager": ("module: pt2-dispatcher", "AOTAutograd's graph diverges, and Dynamo's does not"),
    "aot_eager_decomp_partition": ("module: decompositions", "decompositions or the partition diverge"),
    "inductor": ("module: inductor", "no backend before Inductor diverges"),
}
_ROUNDING = (VerdictClass.COMPILED_BETTER, VerdictClass.EQUALLY_ACCURATE, VerdictClass.AMPLIFIED_ROUNDING)
# The criterion of PyTorch's maintainers (pytorch#143182).
_A_BUG = (
    "Compiled is farther from the float64 reference than eager; PyTorch's maintainers ask for an issue there."
)
_NO_BUG = (
    "PyTorch does not promise eager's bits. Its maintainers ask for an issue where compiled is farther from "
    "the float64 reference than eager; here the difference is ordinary rounding."
)
_WORTH = {
    VerdictClass.COMPILED_WORSE: "Compiled is wrong by more than rounding explains.",
    VerdictClass.RAISES: "Only one of the two raises, and no rounding explains that.",
    VerdictClass.ELIDED_ROUNDING: "Compiled leaves out a cast of the program; a maintainer must say "
    "whether it may.",
    VerdictClass.RANDOM: "Compiled need not draw as eager does, unless "
    "`torch._inductor.config.fallback_random` is set.",
    VerdictClass.UNDEFINED: "Torch leaves the result undefined here, so the program is wrong before the "
    "compiler is.",
}


def section(result: Document) -> Section | None:
    """None where nothing diverges."""
    if not result.diverges:
        return None
    rows = tuple((cell(name, Tone.NAME), cell(reason)) for name, reason in labels(result))
    blocks: tuple[Block, ...] = (Table(rows, ("Label", "Why")),)
    if worth := _worth(result.verdict):
        blocks = (Paragraph(worth), *blocks)
    return Section("Triage", blocks, shown=Medium.PAGE)


def _worth(verdict: VerdictPart) -> str:
    """Whether it is worth an issue; empty where that is not known."""
    kind = verdict.class_
    if kind is VerdictClass.COMPILED_WORSE and is_of_another_kind(verdict):
        return OF_ANOTHER_KIND
    if kind in _ROUNDING:
        return _NO_BUG
    return (
        _A_BUG
        if kind is VerdictClass.COMPILED_WORSE and verdict.rule is Rule.ACCURACY
        else _WORTH.get(kind, "")
    )


def labels(result: Document) -> Iterator[tuple[str, str]]:
    """(label, reason) for a result that diverges."""
    verdict, environment = result.verdict, result.environment
    yield "oncall: pt2", "it needs torch.compile"
    first = verdict.first_bad_backend
    if first in _OF_BACKEND:
        yield _OF_BACKEND[first]
    if first == "inductor" and environment.gpu is None:
        yield "oncall: cpu inductor", "it was seen on a CPU"
    if verdict.class_ is VerdictClass.COMPILED_WORSE:
        yield "module: correctness (silent)", "a wrong result, and no error"
    if verdict.class_ in _ROUNDING:
        yield "module: numerical-stability", "ordinary rounding, in another order or place"
    if any(fix.confirmed and fix.kind == "flag" for fix in result.fixes):
        yield "has workaround", "a setting was confirmed to repair it"
