"""The search of one divergence: rungs, flags, minimal case, decisions, confirmation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.judge import judge
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.probe import BudgetSpent
from bisector.core.reduction.inputs import take_part
from bisector.core.reduction.problem import Problem
from bisector.core.reduction.reduce import reduce
from bisector.core.search.minimal import MinimalSet
from bisector.report.fixes import PASSES, PER_GRAPH

from . import following
from .answer import Answer
from .deciding import Decided, decide, one_repair
from .flags.catalogue import catalogue
from .flags.contrast import Between, contrast
from .flags.current import current
from .flags.trials import FlagWalk
from .flags.walk import holds_on_whole, walk
from .grading import grade
from .grouping import FINEST_FIRST, finest
from .reducing import Anchor, reduce_case
from .run import Session
from .settling import HeldRepair, Settling
from .study import Study, config_id
from .subject import Call, Chosen
from .suspects import Suspects, suspects

LOWER_RUNGS = ("aot_eager", "aot_eager_decomp_partition")
_RUNGS = [(Candidate(backend=name), WHOLE) for name in LOWER_RUNGS]
CONSERVATIVE = "conservative values"  # of every flag that acts
SELFTEST = {"job": "selftest"}
# Graphs of up to this many nodes are searched whole before they are reduced; a probe of a larger one
# takes seconds, and its plain baseline a kernel for every node.
SEARCHED_WHOLE = 40
# Inputs of more elements make each probe slow by itself; they are cut down before the search.
MANY_ELEMENTS = 2**20
MOST_ANCHORS = 3  # each one costs a probe for every case that the reducer takes


def wanted_first(study: Study, call: Call) -> list[dict[str, Any]]:
    """What a search will ask: beside the verdict, which keeps one lane for long, it costs little time."""
    if study.lab.jobs < 2:
        return []
    followed = _followed_whole(call) and call["elements"] <= MANY_ELEMENTS
    trace = [following.request(study, WHOLE)] if followed else []
    return [SELFTEST, *trace, *study.requests(_RUNGS)]


def _followed_whole(call: Call) -> bool:
    return int(call["nodes"]) <= following.MOST_CALLS


@dataclass
class Search:
    """Works on one chosen call and writes what it finds into the answer.

    start, default: the case that the search begins with (the whole, or a part of its inputs that diverges
    alike) and its default compile. walk: the flags, once they are walked. group: a repair of the whole
    that was found by groups of decisions, where no flag repairs.
    """

    session: Session
    chosen: Chosen
    answer: Answer
    start: Case = WHOLE
    default: ProbeResult = field(init=False)
    walk: FlagWalk = field(default_factory=FlagWalk)
    group: MinimalSet | None = None

    def __post_init__(self) -> None:
        self.study = self.chosen.study
        self.second = self.session.new_lab("confirm")
        self.default = judge(self.chosen.evidence.default, self.study.criterion)

    def rungs(self) -> dict[str, ProbeResult]:
        """All rungs are tried, since the ladder is not monotone; the agreeing ones below Inductor."""
        with self.session.clock.stage("localise"):
            tested = self.session.lab.ask(SELFTEST)
            self.answer.hooks_off = self.study.hooks_off = _hooks_off(tested)
            self.answer.not_here = tested.get("not_here", {})
            results = self.study.probe_all(_RUNGS)
        named = dict(zip(LOWER_RUNGS, results, strict=True))
        failing = [name for name, r in named.items() if r.outcome is Outcome.FAIL]
        self.answer.first_bad_backend = failing[0] if failing else "inductor"
        self.session.progress("backends", f"first diverging backend: {self.answer.first_bad_backend}")
        agreeing = {name: r for name, r in named.items() if r.outcome is Outcome.PASS}
        return {**dict(reversed(agreeing.items())), "eager": ProbeResult(Outcome.PASS, "the baseline")}

    def flags(self) -> None:
        """Walk the catalogue: over a part of large inputs, if what repairs that part repairs the whole."""
        self._take_a_part()
        with self.session.clock.stage("fixes"):
            flags = catalogue(self.chosen.call.get("devices", ()))
            settings = current(self.study, [*(flag.name for flag in flags), PER_GRAPH, PASSES])
            measured = self.default.measurement
            self.walk = walk(self.study, flags, settings, self.start, measured, self._beside_flags())
            if self.start != WHOLE and not holds_on_whole(self.study, self.walk):
                self.start, self.default = WHOLE, judge(self.chosen.evidence.default, self.study.criterion)
                measured = self.default.measurement
                self.walk = walk(self.study, flags, settings, WHOLE, measured)
        self.answer.walk = self.walk
        names = [t.flag.name for t in self.walk.fixes] or [" + ".join(s) for s in self.walk.sets]
        self.session.progress("flags", f"repair it: {', '.join(names) or 'none of those tried'}")

    def bring_back(self) -> None:
        """Which flags, as they are, make the subject diverge when all others that act are conservative."""
        acting = self.walk.programs(self.default.measurement)
        if not acting:
            return
        good = {t.flag.name: t.flag.conservative for t in acting}
        as_is = {t.flag.name: t.default for t in acting}
        likely = [frozenset(config_id(t.flag.name) for t in acting if t.role == "fix")]
        with self.session.clock.stage("fixes"):
            between = Between(self.study, self.start, self.default, good, as_is, as_is)
            self.answer.contrast = contrast(between, CONSERVATIVE, [s for s in likely if s])

    def follow(self, case: Case, default: ProbeResult) -> None:
        """Where the difference arises and grows; the class follows from it where the case has every node."""
        with self.session.clock.stage("localise"):
            found = following.follow(self.study, case, default)
        self.answer.origin, self.answer.amplifier = found.origin, found.amplifier
        self.answer.notes += found.notes
        if found.trace is not None and case == self.start:
            self.answer.verdict = self.chosen.reclassified(found.trace)
        if found.origin is not None:
            grows = f", grows most at {found.amplifier.name}" if found.amplifier is not None else ""
            self.session.progress("localise", f"starts at {found.origin.name}{grows}")

    def _beside_flags(self) -> list[dict[str, Any]]:
        """What `follow` will ask first; a walk alone does so only for a fix that fails on other inputs."""
        minimizing = self.session.options.command == "minimize"
        wanted = minimizing and self.can_follow_whole and following.followable(self.default)
        return [following.request(self.study, self.start)] if wanted else []

    @property
    def can_follow_whole(self) -> bool:
        return _followed_whole(self.chosen.call)

    def _take_a_part(self) -> None:
        """Cut millions of elements down to some that diverge alike; the whole has the last word later."""
        elements = self.chosen.call["elements"]
        if elements > MANY_ELEMENTS:
            self.start, self.default = self.reduce(self.start, self.default, None, take_part)
            self.answer.notes.append(
                f"flags were walked on a part of the inputs that diverges alike "
                f"({self.study.describe(self.start).elements} of {elements} elements); "
                "what repairs it was tried on the whole"
            )

    def decide_and_reduce(self) -> tuple[Case, Decided]:
        """A graph of few nodes is searched whole, and its repairs hold the reduction to the same bug; a
        large one is reduced first, held by what repairs it at the least cost."""
        self.second.start_early()
        if self.chosen.call["nodes"] > SEARCHED_WHOLE:
            case, small = self.reduce(self.start, self.default, self._anchor())
            return case, self._decide(case, small)
        decided = self._decide(self.start, self.default)
        repairs = [frozenset(r.members) for r in finest(decided.sets.repairs) if r.confirmed]
        anchor = Anchor(tuple(repairs[:MOST_ANCHORS])) if repairs else self._anchor()
        case, _ = self.reduce(self.start, self.default, anchor)
        return case, decided

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
        self.session.progress("causes", f"denying {_told(repair)} repairs it")
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
            reduced = reduce_case(self.study, start, default, anchor, passes)
        self.answer.stopped_because = self.answer.stopped_because or reduced.stopped_because
        info = self.study.describe(reduced.case)
        size = f"{len(info.calls)} calls on {info.elements} elements still diverge"
        self.session.progress("minimize", size)
        return reduced.case, reduced.default

    def _decide(self, case: Case, default: ProbeResult) -> Decided:
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
        held = Settling(self.session, self.chosen, self.answer, self.second).settle(decided, self.group)
        if self.answer.confirmation is not None:
            self._grade_group()
        return held

    def _grade_group(self) -> None:
        """Where a group of many repairs the whole and nothing smaller is known to: what its members carry."""
        if self.group is None or any(repair.confirmed for repair in self.answer.repairs):
            return
        try:
            with self.session.clock.stage("causes"):
                shares = grade(self.study, self.start, self.default, self.group.members, repairs=True)
            self.answer.graded = shares
        except BudgetSpent as spent:
            self.answer.stopped_because = self.answer.stopped_because or spent.reason


def _hooks_off(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """The kinds whose hooks do not bite here; all of them where the self-test itself failed."""
    if "error" in answer:
        return {kind: f"the self-test failed: {answer['error']}" for kind in FINEST_FIRST if kind != "config"}
    off: Mapping[str, str] = answer["off"]
    return off


def _told(repair: MinimalSet) -> str:
    """The members, or the first of many."""
    if len(repair.members) <= 4:
        return " + ".join(repair.members)
    return f"{repair.members[0]} and {len(repair.members) - 1} more"
