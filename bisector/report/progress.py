"""The words of each step that a run tells while it is at work: a line without a full stop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from bisector.core import progress as steps
from bisector.core.case import WHOLE
from bisector.core.decision import listed
from bisector.core.evidence import Evidence
from bisector.core.fix_source import python_literal
from bisector.core.model import Base, Measurement
from bisector.core.progress import Step
from bisector.core.protocol import Failed, OfCalls, RunCalls, RunProbe

from .builds import SHORT, because
from .endings import OUTCOMES
from .reasons import words as words_of_reason

_FIXED: Mapping[type[Step], str] = {
    steps.NoCallDiverges: "no captured call diverges; running the script with and without compilation",
    steps.RegionRefuted: "what repairs the region does not repair the whole",
    steps.GraphRepairsNothing: "nothing in the graph repairs it; running the script itself",
}


@singledispatch
def words(step: Step) -> str:
    """What is said of it while the run is at work."""
    return _FIXED[type(step)]


@words.register
def _(step: steps.Running) -> str:
    return f"running {step.target}"


@words.register
def _(step: steps.AgainWith) -> str:
    return f"again with {', '.join(step.variables)}, which the script sets before it imports torch"


@words.register
def _(step: steps.AgainDrawingAlike) -> str:
    differs = "the script does not agree" if step.is_script else "it diverges too"
    return f"again with fallback_random=True, under which {differs}"


@words.register
def _(step: steps.OtherSeeds) -> str:
    first, second = step.seeds
    return f"they agree; the script sets no seed, and is run with seeds {first} and {second} too"


@words.register
def _(step: steps.Judged) -> str:
    return f"{step.verdict.kind.value}: {words_of_reason(step.verdict.reason)}"


@words.register
def _(step: steps.Probed) -> str:
    request, parts = step.request, list[str]()
    if isinstance(request, RunCalls):
        return f"{len(request.calls)} calls of one graph: {_came_of(step.answer)}"
    if isinstance(request, RunProbe):
        candidate = request.candidate
        parts = [f"{name}={value}" for name, value in candidate.flags]
        if members := sorted(candidate.members):
            verb = "allow" if candidate.base is Base.PLAIN else "deny"
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            parts.append(f"{verb} {members[0]}{more}")
    parts.append("on the whole" if request.about.case == WHOLE else "on a smaller case")
    return f"{', '.join(parts)}: {_came_of(step.answer)}"


def _came_of(answer: Measurement | OfCalls | Evidence | Failed) -> str:
    if isinstance(answer, Failed):
        return answer.reason
    if isinstance(answer, OfCalls):
        return "measured"
    measurement = answer.default if isinstance(answer, Evidence) else answer
    return measurement.error or f"{measurement.seconds:.2f} s"


@words.register
def _(step: steps.FirstBadBackend) -> str:
    return f"first diverging backend: {step.name}"


@words.register
def _(step: steps.OperationsDiffer) -> str:
    return f"no single node carries it; {step.sorts} sorts of operations differ"


@words.register
def _(step: steps.RegionDiverges) -> str:
    return f"a region of {step.calls} of {step.of} calls diverges alike"


@words.register
def _(step: steps.Begins) -> str:
    grows = f", grows most at {step.amplifier}" if step.amplifier is not None else ""
    return f"starts at {step.origin}{grows}"


@words.register
def _(step: steps.FlagsTried) -> str:
    return f"repair it: {', '.join(step.repairing) or 'none so far'}"


@words.register
def _(step: steps.OneRepair) -> str:
    return f"disabling {listed(step.members)} repairs it"


@words.register
def _(step: steps.FamilyCarries) -> str:
    carries = "repair it" if step.removed is None else f"remove {step.removed:.0%} of it"
    return f"on the whole: {step.decisions} decisions together {carries}"


@words.register
def _(step: steps.SetsFound) -> str:
    return f"causes found: {step.causes}, repairs found: {step.repairs}"


@words.register
def _(step: steps.Confirmed) -> str:
    settings = [
        ", ".join(f"{name} = {python_literal(value)}" for name, value in values.items())
        for values in step.settings
    ]
    parts = [f"the cause is {' or '.join(map(listed, step.causes))}"] if step.causes else []
    parts += [f"without {' or '.join(map(listed, step.repairs))} it agrees"] if step.repairs else []
    parts += [f"{' or '.join(settings)} repairs it"] if settings else []
    return "; ".join(parts) or ("nothing" if step.not_shown is None else words_of_reason(step.not_shown))


@words.register
def _(step: steps.Smaller) -> str:
    return f"{step.calls} calls on {step.elements} elements still diverge"


@words.register
def _(step: steps.ReproDiverges) -> str:
    fixed = "--fixed agrees" if step.has_fix else "no fix that plain torch can express"
    return f"{step.file} diverges; {fixed}"


@words.register
def _(step: steps.FailsAsTest) -> str:
    return f"{step.file} fails: {step.said}"


@words.register
def _(step: steps.ScriptUnderFix) -> str:
    outcome = "agrees with eager" if step.why is None else words_of_reason(step.why)
    return f"with {step.fix} the script itself: {outcome}"


@words.register
def _(step: steps.IndexRead) -> str:
    return f"{step.url} has {step.versions} versions for this Python"


@words.register
def _(step: steps.BuildAsked) -> str:
    commit = f" ({step.commit[:SHORT]})" if step.commit else ""
    why = because(step.reason, step.same_as)
    return f"{step.name}{commit} {OUTCOMES[step.outcome]}" + (f": {why}" if why else "")


@words.register
def _(step: steps.BuildAskedUnder) -> str:
    under = ", ".join(f"{flag}={value}" for flag, value in step.settings.items())
    return f"{step.name} with {under} {OUTCOMES[step.outcome]}"


@words.register
def _(step: steps.LookedAt) -> str:
    return f"{step.name}: {step.found}"
