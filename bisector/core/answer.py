"""What a run found, as the pipeline puts it together from the results of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .confirmed import Confirmed, Decided, Repair, SecondOpinion
from .cost import Probes, Seconds
from .criterion import Criterion
from .decision import Decision, DecisionId
from .endings import Ending, NotInSecondProcess, ReprosAgree, ScriptStillDiverges, Unproved
from .fix import Conclusion, Fix
from .flags import Contrast, FlagWalk
from .followed import Followed, FollowedGraph
from .found_builds import FoundBuilds
from .graphinfo import GraphInfo
from .mechanism import FoundFamily
from .model import Measurement, OutputMeasurement, ProbeResult
from .notes import AlsoDiverges, Note, Relation
from .protocol import HooksTested
from .reasons import SILENT, Reason
from .reproduced import Reproduced, WrittenTest
from .reuse import Reuse
from .script_tried import ScriptTried, UnderFix
from .search.graded import Graded
from .search.minimal import MinimalSet
from .search_notes import MechanismAlone
from .smaller import Neighbour
from .standing import NOTHING, ByCall
from .steps import FoundSteps
from .trace import NodeTrace
from .verdict import Verdict, VerdictClass, decided


@dataclass(frozen=True)
class Preflight:
    """hooks: which work here. first_bad_backend: the first that diverges, None where that is not known, for
    the reason rung_unknown; agreeing: those before the script's own that agree, `eager` last, with their
    default compile."""

    hooks: HooksTested
    first_bad_backend: str | None
    rung_unknown: Note | None
    agreeing: Mapping[str, ProbeResult]


@dataclass(frozen=True)
class OtherCalls:
    """The calls that diverge, other than the one that was explained, with what is noted of them."""

    calls: tuple[AlsoDiverges, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Everything a run may have found; what stayed empty could not be established.

    causes, fixes: each with whether it is confirmed. repro_fix: the ID of the fix that `--fixed` applies;
    repro_untried: why the script itself was not tried as one. repro_agrees: a repro was written and run, and
    does not diverge. not_shown: why the second process could confirm nothing, None where it could. script:
    None where the script was not run under a fix. by_call: a script that diverges as a whole, call by call.
    """

    target: str
    run: str
    environment: Mapping[str, Any]
    verdict: Verdict | None = None
    by_call: ByCall = NOTHING
    criterion: Criterion = field(default_factory=Criterion)
    default: Measurement = field(default_factory=Measurement)
    first_bad_backend: str | None = None
    entry: str | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    graph: FollowedGraph | None = None
    origin: NodeTrace | None = None
    amplifier: NodeTrace | None = None
    walk: FlagWalk = field(default_factory=FlagWalk)
    contrast: Contrast | None = None
    repairs: tuple[Repair, ...] = ()
    causes: tuple[tuple[MinimalSet[DecisionId], bool], ...] = ()
    places: tuple[DecisionId, ...] = ()
    reuses: tuple[Reuse, ...] = ()
    steps: FoundSteps | None = None
    graded: Graded | None = None
    family: FoundFamily | None = None
    decisions: tuple[Decision, ...] = ()
    fixes: tuple[tuple[Fix, bool], ...] = ()
    minimal: GraphInfo | None = None
    minimal_source: str | None = None
    neighbour: Neighbour | None = None
    repro: str | None = None
    repro_lines: int | None = None
    repro_fix: str | None = None
    repro_untried: Ending | None = None
    repro_agrees: bool = False
    not_shown: Reason | None = None
    script: UnderFix | None = None
    test: str | None = None
    second: SecondOpinion | None = None
    hooks_off: Mapping[str, str] = field(default_factory=dict)
    not_here: Mapping[str, str] = field(default_factory=dict)
    others: tuple[AlsoDiverges, ...] = ()
    notes: tuple[Note, ...] = ()
    builds: FoundBuilds | None = None
    stopped_because: Ending | None = None

    @property
    def classified(self) -> Verdict:
        """The verdict; of what never came to one, that it is unresolved."""
        return decided(VerdictClass.UNRESOLVED, SILENT) if self.verdict is None else self.verdict

    @property
    def outputs(self) -> tuple[OutputMeasurement, ...]:
        """What both returned in the default compile."""
        return tuple(output for output in self.default.outputs if output.raised is None)

    @property
    def proved_kinds(self) -> frozenset[str]:
        """The kinds of the decisions in confirmed causes and repairs."""
        sets = [r.found for r in self.repairs if r.confirmed]
        sets += [found for found, confirmed in self.causes if confirmed]
        return frozenset(member.kind for found in sets for member in found.members)

    @property
    def unproved(self) -> Unproved | None:
        """What a fresh process did not show, so that nothing is confirmed; None where it showed all."""
        script = self.script
        if self.not_shown is not None:
            return NotInSecondProcess(self.not_shown)
        if self.repro_agrees and self.repro is None:
            return ReprosAgree(self.repro_untried)
        if script is None or script.reason is None or not script.refutes or self.others_differ:
            return None
        return ScriptStillDiverges(script.fix, script.reason)

    @property
    def others_differ(self) -> bool:
        """Whether some other call diverges that is not known to have the same cause."""
        return any(other.cause is not Relation.SAME for other in self.others)

    def noted(self, *notes: Note) -> Answer:
        """With further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def stopped(self, why: Ending | None) -> Answer:
        """Of a run that ended early; None leaves it as it is."""
        return self if why is None else replace(self, stopped_because=why)

    def with_verdict(self, verdict: Verdict) -> Answer:
        """With the verdict as the nodes show it."""
        return replace(self, verdict=verdict)

    def with_preflight(self, found: Preflight) -> Answer:
        """With the hooks that work here, and the first backend that diverges."""
        known = replace(
            self, first_bad_backend=found.first_bad_backend, hooks_off=found.hooks.off,
            not_here=found.hooks.not_here,
        )  # fmt: skip
        return known if found.rung_unknown is None else known.noted(found.rung_unknown)

    def with_followed(self, found: Followed) -> Answer:
        """With where the divergence arises and grows."""
        known = replace(self, graph=found.graph, origin=found.origin, amplifier=found.amplifier)
        return known.noted(*found.notes)

    def with_flags(self, walk: FlagWalk) -> Answer:
        """With the flags that were tried."""
        return replace(self, walk=walk)

    def with_decided(self, found: Decided) -> Answer:
        """With what a search found, of which nothing is confirmed yet."""
        known = replace(self, places=found.places, decisions=found.decisions, graded=found.graded)
        return known.noted(*found.checks, *found.sets.gaps)

    def with_confirmed(self, found: Confirmed) -> Answer:
        """With the sets that a second worker was asked about."""
        known = replace(
            self, repairs=found.repairs, causes=found.causes, places=found.places,
            decisions=found.decisions, second=found.second, not_shown=found.not_shown,
        )  # fmt: skip
        return known.noted(*found.notes)

    def with_why(self, reuses: tuple[Reuse, ...], steps: FoundSteps | None) -> Answer:
        """With why calls that run what earlier ones compiled give something else, and the steps of traced
        functions that make the difference."""
        return replace(self, reuses=reuses, steps=steps)

    def with_shares(self, graded: Graded) -> Answer:
        """With what single decisions carry."""
        return replace(self, graded=graded)

    def with_family(self, found: FoundFamily) -> Answer:
        """With the many decisions that carry it together. What holds on a region and not on the whole is no
        reason then."""
        held = tuple(repair for repair in self.repairs if repair.confirmed)
        known = replace(self, family=found, causes=(), repairs=held, places=())
        return known.noted(MechanismAlone())

    def with_conclusion(self, found: Conclusion) -> Answer:
        """With the fixes that were tried, and the minimal case."""
        return replace(self, fixes=found.fixes, minimal=found.minimal).noted(*found.notes)

    def with_neighbour(self, found: Neighbour | None) -> Answer:
        """With the nearest case that agrees."""
        return replace(self, neighbour=found)

    def with_test(self, found: WrittenTest) -> Answer:
        """With the repro as a test, or why there is none."""
        known = replace(self, test=found.file)
        return known if found.note is None else known.noted(found.note)

    def with_others(self, found: OtherCalls) -> Answer:
        """With the other calls that diverge."""
        return replace(self, others=found.calls, notes=(*self.notes, *found.notes))

    def with_repro(self, found: Reproduced) -> Answer:
        """With this repro, and without the fixes that did not hold in it."""
        known = replace(
            self, repro=found.file, repro_lines=found.lines, repro_fix=found.fix,
            repro_agrees=found.agrees, minimal_source=found.function, fixes=found.judged(self.fixes),
        )  # fmt: skip
        return known.noted(*found.notes)

    def without_script_repro(self, why: Ending) -> Answer:
        """Where no graph shows it in plain Python, and the script was not tried as a repro."""
        return replace(self, repro_untried=why)

    def compared_with(self, contrast: Contrast) -> Answer:
        """With what makes another configuration give another answer."""
        return replace(self, contrast=contrast)

    def with_fixes(self, fixes: Sequence[tuple[Fix, bool]]) -> Answer:
        """With these fixes, best first, in the place of those before."""
        return replace(self, fixes=tuple(fixes))

    def with_builds(self, found: FoundBuilds) -> Answer:
        """With the builds of torch that it depends on."""
        return replace(self, builds=found)

    def with_script(self, found: ScriptTried) -> Answer:
        """With what the script shows under fixes. One under which it still diverges is not confirmed, unless
        another call diverges for a cause of its own."""
        refuted = frozenset[str]() if self.others_differ else found.refuted
        fixes = tuple((fix, ok and fix.id not in refuted) for fix, ok in self.fixes)
        return replace(self, fixes=fixes, script=found.shown).stopped(found.stopped_because)

    def proved(self) -> Answer:
        """The same where fresh processes showed all of it; else with nothing confirmed."""
        if self.unproved is None:
            return self
        return replace(
            self,
            repairs=tuple(replace(repair, confirmed=False) for repair in self.repairs),
            causes=tuple((cause, False) for cause, _ in self.causes),
            fixes=tuple((fix, False) for fix, _ in self.fixes),
            family=None if self.family is None else replace(self.family, confirmed=False),
        )

    @property
    def confirmed(self) -> bool:
        """Whether there is a confirmed answer: a repair, a cause, or a fix that goes on compiling. A lower
        backend says where, not why."""
        return (
            any(r.confirmed for r in self.repairs)
            or any(confirmed for _, confirmed in self.causes)
            or any(confirmed for fix, confirmed in self.fixes if fix.kind != "backend")
            or (self.family is not None and self.family.confirmed and self.family.family.repairs)
        )


@dataclass(frozen=True)
class Result:
    """What a command ends with. status: its exit status."""

    answer: Answer
    status: int
    probes: Probes
    seconds: Seconds

    def interrupted(self, why: Ending, status: int) -> Result:
        """The same where the user ended what was still asked."""
        return replace(self, answer=self.answer.stopped(why), status=status)
