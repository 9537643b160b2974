"""From a result to the sentences that carry the answer: what it is, what repairs it, what stays unknown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bisector.core.decision import DecisionId
from bisector.core.fix_source import python_literal
from bisector.core.kinds import KINDS
from bisector.core.outcome import Outcome
from bisector.core.verdict import Rule, VerdictClass

from . import by_call, family, why
from .document import Cause, Contrasted, Document, Nearest, Repair, VerdictPart
from .words import (
    class_sentence,
    conjunction,
    count,
    fix_title,
    is_beyond_rounding,
    is_of_another_kind,
    percent,
    short_decision,
    stopped,
)

_LEADS = {
    VerdictClass.COMPILED_WORSE: "torch.compile is farther from the float64 reference than eager",
    VerdictClass.COMPILED_BETTER: "torch.compile differs from eager, and is nearer to the float64 reference",
    VerdictClass.EQUALLY_ACCURATE: "torch.compile rounds otherwise than eager, and neither is farther from "
    "the float64 reference than rounding explains",
    VerdictClass.AMPLIFIED_ROUNDING: "torch.compile differs from eager by rounding that a later operation "
    "amplifies",
    VerdictClass.ELIDED_ROUNDING: "torch.compile leaves out a rounding that the program asks for",
    VerdictClass.UNDEFINED: "torch.compile differs from eager where torch leaves the result undefined",
    VerdictClass.RANDOM: "torch.compile uses another random stream than eager",
}

BEYOND = "torch.compile differs from eager by more than rounding"
ANOTHER_FORM = "torch.compile gives results of another form (shape, dtype, layout, memory) than eager"
MAX_NAMED = 4  # decisions, or causes, named in the first line
PLACE = "Running the ATen kernel there makes compiled agree, but it also prevents fusion around the node."
RMS_ERROR = "Compiled against eager; rms error is the distance to eager in float64."
FORMULA = "The unoptimized compile diverges too: the formula in Inductor's lowering is to blame."


def answer(result: Document) -> str:
    """The answer in a sentence, and what the script itself says to it: the first line of every report."""
    verdict = result.verdict
    if (contrast := result.contrast) and not result.flags:
        return contrast_lines(contrast)[0]
    if verdict.class_ is VerdictClass.AGREES:
        too = verdict.reason.partition("; ")[2]
        ending = f"; {stopped(too)}" if too else "."
        on = f"{_on_outputs(verdict)}{_in_the_script(verdict)}"
        return f"No divergence: eager and torch.compile agree{on}{ending}"
    if verdict.rule is Rule.ASKS_COMPILING:
        return f"No divergence of torch.compile: {stopped(verdict.reason)}"
    if verdict.class_ is VerdictClass.OWN_DIFFERENCE:
        agree = f"eager and torch.compile agree{_on_outputs(verdict)}"
        alike = "with compilation off the script does the same"
        return f"No divergence of torch.compile: {alike}; {agree}, and {stopped(verdict.reason)}"
    if not result.diverges and verdict.first_bad_backend is not None:
        return f"torch.compile differs from eager: {verdict.reason}."
    if not result.diverges:
        reason = verdict.reason or class_sentence(verdict)
        return stopped(f"C{reason[1:]}" if reason.startswith("cannot tell") else f"No verdict: {reason}")
    doubt = f" (not confirmed: {result.unproved})" if result.unproved is not None else ""
    return f"{_lead(result)}{_because(result)}{doubt}.{_last_word(result)}"


def _last_word(result: Document) -> str:
    """What the user's own script shows under the best fix."""
    script = result.script
    if not script or result.unproved is not None:
        return ""
    named = next((fix for fix in result.fixes if fix.id == script.fix), None)
    change = script.fix if named is None or named.kind == "flag" else fix_title(named)
    with_it = f" {change[0].upper()}{change[1:]}" if change.startswith("without ") else f" With {change}"
    if script.outcome is Outcome.FAIL and script.remaining:
        what = "some of what differs in the script is mended; the rest may be of another cause"
        return f"{with_it} {what}: {script.remaining}."
    if script.outcome is Outcome.FAIL:
        return f"{with_it} the script still diverges, as other calls do: {script.reason}."
    if script.outcome is Outcome.UNRESOLVED:
        return f" Whether the script itself agrees then ({change}) could not be told: {script.reason}."
    number = script.comparisons
    own = f", and {'its own comparison passes' if number == 1 else f'its own {number} comparisons pass'}"
    agrees = f"{with_it} the script itself agrees with eager{own if number else ''}."
    differs = script.own_difference
    return f"{agrees} But {stopped(differs)}" if differs else agrees


def _lead(result: Document) -> str:
    verdict = result.verdict
    if verdict.class_ is VerdictClass.RAISES:
        return str(verdict.reason)
    return _differs(verdict) + by_call.where(result)


def _differs(verdict: VerdictPart) -> str:
    if verdict.class_ is VerdictClass.COMPILED_WORSE and is_of_another_kind(verdict):
        return ANOTHER_FORM
    if verdict.class_ is VerdictClass.COMPILED_WORSE and is_beyond_rounding(verdict):
        return BEYOND
    return _LEADS.get(verdict.class_, "torch.compile differs from eager")


def _on_outputs(verdict: VerdictPart) -> str:
    """Of the call that was studied; they are bit-equal only where all values of the script are."""
    outputs = verdict.outputs
    if not outputs:
        return ""
    exact = all(output.n_diff == 0 for output in outputs) and not verdict.proof.compared.unequal
    return f" on {count(len(outputs), 'output')}, {'bit for bit' if exact else 'within the tolerance'}"


def _in_the_script(verdict: VerdictPart) -> str:
    """What of the whole script was compared; empty where it was not run."""
    compared = verdict.proof.compared
    if not compared.calls:
        return ""
    counts = [
        count(compared.calls, "call"), count(compared.values, "value"),
        count(compared.comparisons, "comparison"), count(compared.lines, "written line"), "its end",
    ]  # fmt: skip
    counted = conjunction([text for text in counts if not text.startswith("0 ")])
    return f" (compared of the script: {counted})"


def _because(result: Document) -> str:
    """The rest of the first line: the best that is known, from a confirmed cause down to nothing."""
    if found := result.family:
        return family.because(result, found)
    confirmed = [cause.decisions for cause in result.causes if cause.confirmed]
    if confirmed:
        return _because_of_causes(confirmed) + why.because(result)
    if result.causes:
        return f", probably because of {_names(result.causes[0].decisions)}, which is not confirmed"
    if result.repairs and not _only_places(result):
        repair = max(result.repairs, key=lambda repair: repair.confirmed)
        sure = _makes([repair])
        names = _names(repair.decisions)
        return f"; disabling {names} {sure} compiled agree with eager, but the cause is not established"
    if result.places:
        nodes = conjunction(_first([f"`{place.node}`" for place in result.places]), "or")
        return f"; it happens at {nodes}, but which decision there is to blame is not known"
    fix = next((fix for fix in result.fixes if fix.confirmed), None)
    if fix:
        return f"; they agree with this change: {fix_title(fix)}"
    return "; the cause is not established" if result.seconds.causes is not None else ""


def _only_places(result: Document) -> bool:
    """Whether all that repairs is to run ATen kernels: that says where, not why."""
    members = [member for repair in result.repairs for member in repair.decisions]
    return bool(result.places) and all(member.kind == "lower" for member in members)


def _names(members: Sequence[DecisionId]) -> str:
    return conjunction(_first(list(_distinct_names(members).values())))


def _distinct_names(members: Sequence[DecisionId]) -> dict[DecisionId, str]:
    """Each decision in a few words, with as much more as distinguishes them."""
    names = short = [short_decision(member) for member in members]
    for more in ([m.detail for m in members], [m.place for m in members], [m.node for m in members]):
        if len(set(names)) < len(names):
            names = [f"{name} ({detail})" for name, detail in zip(short, more, strict=True)]
    return dict(zip(members, names, strict=True))


def _first(items: list[str]) -> list[str]:
    """The items, cut to what still reads as one sentence; the sections below have them all."""
    return items if len(items) <= MAX_NAMED else [*items[:MAX_NAMED], f"{len(items) - MAX_NAMED} more"]


def _because_of_causes(causes: Sequence[Sequence[DecisionId]]) -> str:
    names = _distinct_names(list(dict.fromkeys(member for members in causes for member in members)))
    reasons = [
        conjunction(_first([names[member] for member in members])) + (" together" if len(members) > 1 else "")
        for members in causes
    ]
    if len(causes) == 1:
        return f", because of {reasons[0]}"
    common = [member for member in causes[0] if all(member in cause for cause in causes)]
    others = [[member for member in cause if member not in common] for cause in causes]
    if common and all(others):
        return _with_one_of(common, others)
    listed = "; ".join(_first([f"({position}) {text}" for position, text in enumerate(reasons, 1)]))
    if _are_disjoint(causes):
        return f", for {len(causes)} independent reasons: {listed}"
    return f", for {len(causes)} reasons, each of which is enough: {listed}"


def _with_one_of(common: Sequence[DecisionId], others: Sequence[Sequence[DecisionId]]) -> str:
    """Of causes that share decisions: those, and what each has besides."""
    names = _distinct_names(list(dict.fromkeys(member for members in others for member in members)))
    each = _first([conjunction([names[member] for member in members]) for members in others])
    listed = conjunction(each, "or")
    if any(len(members) > 1 for members in others):
        listed = "any of: " + "; ".join(f"({number}) {text}" for number, text in enumerate(each, 1))
    return f", because of {_names(common)} together with {listed}"


def _are_disjoint(causes: Sequence[Sequence[DecisionId]]) -> bool:
    """Whether no decision is part of two causes."""
    members = [member for cause in causes for member in cause]
    return len(set(members)) == len(members)


def cause_heading(causes: Sequence[Cause]) -> str:
    """What the list of causes says as a whole."""
    if len(causes) > 1:
        how = "either is enough" if len(causes) == 2 else "any one is enough"
        disjoint = _are_disjoint([cause.decisions for cause in causes])
        what = "independent ones" if disjoint else "that share decisions"
        return f"{len(causes)} {what}; {how} to make compiled diverge"
    size = len(causes[0].decisions)
    if size == 1:
        return "one decision is enough"
    return f"{'both' if size == 2 else f'all {size}'} decisions are needed"


def cause_evidence(cause: Cause) -> str:
    """How a cause was confirmed, or why it is not, from its two counterfactuals."""
    alone, without = cause.evidence.alone, cause.evidence.without_each
    several = len(cause.decisions) > 1
    reproduces = {
        Outcome.FAIL: "reproduces the mismatch",
        Outcome.PASS: "does not reproduce the mismatch",
        Outcome.UNRESOLVED: "gives UNRESOLVED",
    }
    left = {
        Outcome.FAIL: "compiled still diverges",
        Outcome.PASS: "compiled agrees with eager",
        Outcome.UNRESOLVED: "the outcome is UNRESOLVED",
    }
    doubt = "" if cause.confirmed else "Not confirmed. "
    these = "only these" if several else "only this"
    on = f"{doubt}Enabling {these} in an otherwise unoptimized compile {reproduces[alone]}"
    if not without:
        return f"{on}; not tried without."
    off = left[without[0]] if len(set(without)) == 1 else f"the outcomes are {_listed(without)}"
    return f"{on}; without {'any one of them' if several else 'it'} {off}."


def _listed(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(outcome.value for outcome in outcomes)


def blames_formula(cause: Cause, verdict: VerdictPart) -> bool:
    """Whether a cause is a lowering itself: the plain baseline diverges, so its formula is to blame. Any
    lowering loses a tangent, whatever its formula."""
    has_tangents = any(".tangent[" in output.path for output in verdict.outputs)
    lost = has_tangents and verdict.rule is Rule.KIND
    return not lost and all(member.kind == "lower" for member in cause.decisions)


def repair_lines(repairs: Sequence[Repair], name: Callable[[DecisionId], str] = short_decision) -> list[str]:
    """The repairs in words, one sentence a line; those of one decision share a sentence.

    name: how the page refers to a decision.
    """
    alone = [repair for repair in repairs if len(repair.decisions) == 1]
    lone = [repair for repair in alone if repair.confirmed] or alone
    disabling = "Only disabling" if len(repairs) == 1 else "Disabling"
    lines = []
    if lone:
        names = conjunction([name(repair.decisions[0]) for repair in lone], "or")
        which = {1: "", 2: "either "}.get(len(lone), "any one of ")
        lines.append(f"Disabling {which}{names} {_makes(lone)} compiled agree with eager{_doubt(lone)}.")
    for repair in alone:
        if repair not in lone:
            lines.append(f"Disabling {name(repair.decisions[0])} does not{_doubt([repair])}.")
    for repair in repairs:
        if len(repair.decisions) > 1:
            names = conjunction([name(member) for member in repair.decisions])
            both = "both" if len(repair.decisions) == 2 else "all of"
            makes = _makes([repair])
            lines.append(f"{disabling} {both} {names} {makes} compiled agree with eager{_doubt([repair])}.")
    return lines


def _makes(repairs: Sequence[Repair]) -> str:
    return "makes" if all(repair.confirmed for repair in repairs) else "seems to make"


def _doubt(repairs: Sequence[Repair]) -> str:
    """What a plain "repairs" would hide: a set that is not confirmed, a difference within the tolerance."""
    parts = [] if all(repair.confirmed for repair in repairs) else ["not confirmed"]
    fractions = [repair.removed_fraction for repair in repairs]
    if any(fraction is not None and fraction < 1 for fraction in fractions):
        removed = conjunction([percent(fraction) for fraction in fractions])
        parts.append(f"removes {removed} of the difference")
    return f" ({'; '.join(parts)})" if parts else ""


def shares_sentence(result: Document) -> str:
    """Whether the shares of the graded decisions add up; empty where none were graded."""
    shares = result.graded
    if not shares:
        return ""
    together = result.removed_together
    removes = f"disabled together they remove {percent(together)}"
    if result.adds_up is None:
        return "Whether they add up was not established."
    total = percent(sum(share.removed_fraction or 0.0 for share in shares))
    if result.adds_up:
        return f"They add up: {total} in sum, and {removes}."
    return f"They do not add up: {total} in sum, but {removes}."


def confirmation_sentence(result: Document) -> str:
    """What the last check in a new process gave; empty where there was none."""
    confirmation = result.confirmation
    if not confirmation:
        return ""
    says = {Outcome.PASS: "agrees", Outcome.FAIL: "diverges", Outcome.UNRESOLVED: "is UNRESOLVED"}
    text = f"Checked again ({confirmation.process}): the default compile {says[confirmation.default]}"
    repairs = confirmation.repairs
    if not repairs:
        return f"{text}."
    if set(repairs) == {Outcome.PASS}:
        return f"{text}, with {'the repair' if len(repairs) == 1 else 'each repair'} it agrees."
    return f"{text}, with the repairs it {conjunction([says[outcome] for outcome in repairs])}."


def repair_heading(repairs: Sequence[Repair]) -> str:
    """What the list of repairs says as a whole."""
    which = "this set" if len(repairs) == 1 else "any one of these sets"
    sure = [repair for repair in repairs if repair.confirmed]
    return f"disabling {which} {_makes(sure or repairs)} compiled match eager"


def contrast_lines(contrast: Contrasted) -> list[str]:
    """What two configurations of one target are to each other, then the settings that make it so."""
    sides = ["as it is", f"under {contrast.with_}"]
    diverging, agreeing = sides if contrast.target is Outcome.FAIL else reversed(sides)
    repairs, causes, unknown = contrast.repairs, contrast.causes, contrast.unknown
    if not (repairs or causes):
        return [f"What makes the difference is not established: {unknown}."]
    lines = [f"The target diverges {diverging} and agrees {agreeing}."]
    if repairs:
        lines.append(f"Settings that make it agree {diverging}: {_settings(repairs)}.")
    if causes:
        lines.append(f"Settings that make it diverge {agreeing}: {_settings(causes)}.")
    return lines + ([f"There might be more: {unknown}."] if unknown else [])


def _settings(sets: Sequence[Mapping[str, Any]]) -> str:
    listed = [conjunction([f"{n} = {python_literal(v)}" for n, v in settings.items()]) for settings in sets]
    return "; or ".join(listed)


def nearest_sentence(nearest: Nearest) -> str:
    """What must change in the minimal case to make it agree."""
    differs = f"The nearest case that agrees: {stopped(nearest.differs_by)}"
    if not nearest.artifact_diff:
        return f"{differs} Its generated code is the same, or is not known."
    return f"{differs} How its generated code differs: {nearest.artifact_diff}"


def not_established(result: Document) -> list[str]:
    """What the run could not find out, and why; one sentence a line."""
    lines = []
    if result.stopped_because:
        lines.append(f"Stopped early: {stopped(result.stopped_because)} This is the answer so far.")
    if result.diverges:
        lines += _missing(result, result.seconds.of_stages.keys())
    for kind, reason in result.hooks_off.items():
        noun = f" ({KINDS[kind].noun})" if kind in KINDS else ""
        lines.append(f"Decisions of kind {kind}{noun} were not examined: {stopped(reason)}")
    return lines


def _missing(result: Document, ran: Collection[str]) -> list[str]:
    lines = []
    if "causes" in ran and not (result.causes or result.family):
        searched = "no decisions are known that reproduce the mismatch in an otherwise unoptimized compile"
        found = "found by then" if result.stopped_because else f"found: {searched}"
        lines.append(f"No cause was {found}.")
    if "fixes" in ran and not any(fix.confirmed for fix in result.fixes):
        unknown = "No single change is known that makes compiled agree with eager."
        lines.append("No fix was confirmed by then." if result.stopped_because else unknown)
    if "minimize" in ran and result.repro is None:
        lines.append("No repro was written.")
    if not {"localise", "causes", "fixes"}.intersection(ran) and not result.stopped_because:
        lines.append(_no_search(result, ran))
    return lines


def _no_search(result: Document, ran: Collection[str]) -> str:
    """Why no decisions were searched."""
    first = result.verdict.first_bad_backend
    if "minimize" not in ran:
        return "The cause was not looked for; `numbisect minimize` does that."
    if first in ("eager", "aot_eager"):
        return f"Not a decision of Inductor: backend={first!r} diverges already."
    return "No decision could be searched: what shows it is not seen where decisions can be disabled."
