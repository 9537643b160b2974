"""The search of one divergence: rungs, flags, minimal case, decisions, confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.graphinfo import Axis
from bisector.core.judge import judge
from bisector.core.model import ProbeResult
from bisector.core.protocol import Request, SelfTest
from bisector.core.reduction.inputs import take_part
from bisector.core.reduction.problem import Problem
from bisector.core.reduction.reduce import narrow, reduce, reduce_graph
from bisector.core.search.minimal import MinimalSet
from bisector.core.trace import Trace
from bisector.report.fixes import PASSES, PER_GRAPH

from . import following
from .answer import Answer
from .deciding import Decided, decide, one_repair
from .flags.catalogue import catalogue
from .flags.trials import FlagWalk
from .flags.walk import holds_on_whole, walk
from .grouping import listed
from .localising import diverging_region, place_repair
from .opening import MANY_ELEMENTS, SEARCHED_WHOLE, backends, can_follow_whole, is_large, tested_hooks
from .reducing import Anchor, anchored_by, reduce_case
from .run import Session
from .settling import HeldRepair, Settling
from .study import config_id
from .subject import Chosen
from .suspects import Suspects, suspects


@dataclass
class Search:
    """Works on one chosen call and writes what it finds into the answer.

    start, default: the case that the search begins with (the whole, a region of a large graph, or a part of
    the inputs; both diverge alike) and its default compile. in_region: it is a region; whether what repairs
    it repairs the whole is seen at the end. walk: the flags, once they are walked. group: a repair that was
    found by groups of decisions, where no flag repairs. followed: the trace of the whole, if there is one.
    also_seen: smaller cases that diverge otherwise, by what they show.
    """

    session: Session
    chosen: Chosen
    answer: Answer
    start: Case = WHOLE
    default: ProbeResult = field(init=False)
    in_region: bool = False
    walk: FlagWalk = field(default_factory=FlagWalk)
    group: MinimalSet | None = None
    followed: Trace | None = None
    also_seen: dict[str, Case] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.study = self.chosen.study
        self.second = self.session.new_lab("confirm")
        self._start_whole()

    def _start_whole(self) -> None:
        self.start, self.in_region = WHOLE, False
        self.uncut: dict[Axis, int] = {}
        self.default = judge(self.chosen.evidence.default, self.study.criterion)

    def rungs(self) -> dict[str, ProbeResult]:
        """The backends below Inductor that agree, and which hooks work here."""
        with self.session.clock.stage("localise"):
            tested = tested_hooks(self.session.lab.ask(SelfTest()))
            self.answer.hooks_off = self.study.hooks_off = tested.off
            self.answer.not_here = tested.not_here
            first, agreeing = backends(self.study)
        self.answer.first_bad_backend = first
        self.session.progress("backends", f"first diverging backend: {first}")
        return agreeing

    def begin(self) -> None:
        """Choose the case to begin with: of a large graph the region where the difference arises.

        A probe of the whole takes seconds there; all but a few are about the region. Then the worker itself
        compiles what is probed next: it came back in a probe, so it will there, and halves every later probe.
        """
        if is_large(self.chosen.call):
            self.second.start_early()
            if self.can_follow_whole:
                self.follow(WHOLE, self.default)
            self._look_into(*self._region())
        self.study.warm(self.start)

    def _region(self) -> tuple[Case, ProbeResult]:
        """What diverges alike and has few calls; the whole where nothing smaller does."""
        with self.session.clock.stage("localise"):
            trace = self.followed
            found = None if trace is None else diverging_region(self.study, trace, self.default)
        case, default = found or self.reduce(WHOLE, self.default, None, narrow)
        if len(self.study.describe(case).calls) > SEARCHED_WHOLE:
            repair = place_repair(self.study, self.answer.origin, case, default)
            anchor = Anchor((frozenset(repair.members),)) if repair is not None else None
            case, default = self.reduce(case, default, anchor, reduce_graph)
        return case, default

    def _look_into(self, case: Case, default: ProbeResult) -> None:
        calls = len(self.study.describe(case).calls)
        if calls > SEARCHED_WHOLE:
            return
        self.start, self.default, self.in_region = case, default, True
        size = f"{calls} of {self.chosen.call.nodes} calls"
        self.session.progress("localise", f"a region of {size} diverges alike")
        self.answer.notes.append(
            f"decisions and flags were searched in a region of {size} that diverges alike; "
            "what repairs it was tried on the whole"
        )

    def back_to_whole(self) -> None:
        """Begin again with the whole: nothing that repairs the region repairs it."""
        self._start_whole()
        self.walk, self.group = FlagWalk(), None
        self.answer.notes[-1] += "; nothing did, so the whole was searched"
        self.session.progress("localise", "what repairs the region does not repair the whole")

    def flags(self) -> None:
        """Walk the catalogue on the case to begin with; what repairs a part is tried on the whole."""
        self._take_a_part()
        with self.session.clock.stage("fixes"):
            flags = catalogue(self.chosen.call.devices)
            settings = self.study.settings([*(flag.name for flag in flags), PER_GRAPH, PASSES])
            measured = self.default.measurement
            self.walk = walk(self.study, flags, settings, self.start, measured, self._beside_flags())
            partly = self.start != WHOLE and self.walk.repairs_something
            if partly and not holds_on_whole(self.study, self.walk) and not self.in_region:
                self._start_whole()
                self.walk = walk(self.study, flags, settings, WHOLE, self.default.measurement)
        self.answer.walk = self.walk
        self.session.progress("flags", f"repair it: {', '.join(self.walk.repairing) or 'none so far'}")

    def follow(self, case: Case, default: ProbeResult) -> None:
        """Where the difference arises and grows; the class follows from it where the case has every node."""
        with self.session.clock.stage("localise"):
            found = following.follow(self.study, case, default)
        self.answer.origin, self.answer.amplifier = found.origin, found.amplifier
        self.answer.notes += found.notes
        if found.trace is not None and case == self.start:
            self.answer.verdict = self.chosen.reclassified(found.trace)
            self.followed = found.trace
        if found.origin is not None:
            grows = f", grows most at {found.amplifier.name}" if found.amplifier is not None else ""
            self.session.progress("localise", f"starts at {found.origin.name}{grows}")

    def _beside_flags(self) -> list[Request[Any]]:
        """What `follow` will ask first; a walk alone does so only for a fix that fails on other inputs."""
        minimizing = self.session.options.command == "minimize"
        wanted = minimizing and self.can_follow_whole and following.followable(self.default)
        return [following.request(self.study, self.start)] if wanted else []

    @property
    def can_follow_whole(self) -> bool:
        return can_follow_whole(self.chosen.call)

    def _take_a_part(self) -> None:
        """Cut millions of elements down to some that diverge alike; the whole has the last word later."""
        whole = self.chosen.call.elements
        elements = self.study.describe(self.start).elements if self.in_region else whole
        if elements > MANY_ELEMENTS:
            self.start, self.default = self.reduce(self.start, self.default, None, take_part)
            self.answer.notes.append(
                f"flags were walked on a part of the inputs that diverges alike "
                f"({self.study.describe(self.start).elements} of {elements} elements); "
                "what repairs it was tried on the whole"
            )

    def decide_and_reduce(self) -> tuple[Case, Decided]:
        """A graph of few calls is searched before it is reduced; a large one is reduced first, held by what
        repairs it at the least cost."""
        self.second.start_early()
        if is_large(self.chosen.call):
            case, small = self.reduce(self.start, self.default, self._anchor())
            return case, self.decide(case, small)
        decided = self.decide(self.start, self.default)
        return self.reduce_alike(decided), decided

    def reduce_alike(self, decided: Decided) -> Case:
        """The smallest case, held to the same bug by the repairs that were decided."""
        anchor = anchored_by(decided.sets.repairs) or self._anchor()
        return self.reduce(self.start, self.default, anchor)[0]

    def _anchor(self) -> Anchor | None:
        """What must go on repairing smaller cases: a flag, a set of flags, or one repair by decisions."""
        if self.walk.fixes:
            return Anchor((frozenset({config_id(self.walk.fixes[0].flag.name)}),))
        if self.walk.sets:
            return Anchor((frozenset(config_id(name) for name in self.walk.sets[0]),))
        with self.session.clock.stage("causes"):
            repair = one_repair(self.study, self.start, self.default, self._suspects())
        if repair is None:
            self.answer.notes.append("no flag and no set of decisions repairs the whole subject")
            return None
        self.group = repair
        self.session.progress("causes", f"denying {listed(repair.members)} repairs it")
        return Anchor((frozenset(repair.members),))

    def reduce(
        self,
        start: Case,
        default: ProbeResult,
        anchor: Anchor | None,
        passes: Callable[[Problem], None] = reduce,
    ) -> tuple[Case, ProbeResult]:
        """The smallest case found from `start`, and its default compile."""
        with self.session.clock.stage("minimize"):
            verdict = self.answer.verdict or self.chosen.verdict
            reduced = reduce_case(self.study, start, default, anchor, passes, verdict.kind)
        self.also_seen |= {seen.what: seen.case for seen in reduced.also_seen}
        self.answer.stopped_because = self.answer.stopped_because or reduced.stopped_because
        self.uncut, info = reduced.uncut, self.study.describe(reduced.case)
        self.session.progress("minimize", f"{info.size} still diverge")
        return reduced.case, reduced.default

    def decide(self, case: Case, default: ProbeResult) -> Decided:
        with self.session.clock.stage("causes"):
            decided = decide(self.study, case, default, self.walk.necessary, self._suspects())
        self.answer.decisions = decided.decisions
        self.answer.places = decided.places
        self.answer.graded = decided.graded
        self.answer.notes += decided.checks
        self.answer.stopped_because = self.answer.stopped_because or decided.sets.stopped_because
        found = len(decided.sets.causes), len(decided.sets.repairs)
        self.session.progress("causes", f"causes found: {found[0]}, repairs found: {found[1]}")
        return decided

    def _suspects(self) -> Suspects:
        return suspects(self.walk.suspected, self.answer.origin, self.study.signatures)

    def confirm(self, decided: Decided) -> list[HeldRepair]:
        """Ask a second worker, and write what it says into the answer. What repairs the whole comes back."""
        settling = Settling(self.session, self.chosen, self.answer, self.second)
        try:
            held = settling.settle(decided, self.group)
            if self.in_region and not (held or self.walk.repairs_something):
                # A finer decision at the origin can leave a few elements of the whole that the region lacks.
                place = place_repair(self.study, self.answer.origin, self.start, self.default)
                held = settling.also(place) if place is not None else []
        finally:
            self.second.close()
        if self.group is not None:
            settling.grade(self.group, self.start, self.default)
        return held
