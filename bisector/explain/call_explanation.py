"""A recorded call explained: the stages of the search in its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bisector.core import progress as steps
from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE, Case
from bisector.core.clusters import patterns
from bisector.core.confirmed import Confirmed, Decided
from bisector.core.decision import DecisionId
from bisector.core.fix import Conclusion
from bisector.core.followed import Followed
from bisector.core.mechanism import FoundFamily, Mechanism
from bisector.core.model import Candidate
from bisector.core.protocol import Request
from bisector.core.reduction.reduce import Pass, reduce
from bisector.core.search.minimal import MinimalSet
from bisector.core.search_notes import NoRepairKnown, NotMinimized, RegionRefuted
from bisector.core.smaller import Anchor, Reduced, Scope, Start
from bisector.core.verdict import VerdictClass

from . import localisation, starting_case
from .conclusion import conclude_call
from .confirmation import confirm_also
from .culprit_search import grade, one_repair
from .explanation import Explanation
from .family_search import family_of_whole, is_diffuse, seen_again, smallest_on_whole
from .flags.curated import of_call
from .mechanisms import TO_THE_BIT, mechanisms
from .preflight import try_backends
from .reduction import anchored_by, nearest
from .study import config_id

FEW = 3  # decisions; so few that repair the whole are no family


class CallExplanation(Explanation):
    """The stages of a call in their order."""

    def explain(self) -> None:
        self._open()
        if self._search_diffuse():
            return
        self._begin_in_region()
        if not self._search():
            self._begin_again()
            self._search()

    def _open(self) -> None:
        """Which hooks and backends work, and the case to begin with."""
        with self.session.clock.stage("localise"):
            hooks, default = self._tested_hooks(), self.divergence.evidence.default
            self.preflight = try_backends(self.study, self.divergence.call, default, hooks)
        self._say("backends", steps.FirstBadBackend(self.preflight.first_bad_backend))
        if self.divergence.call.is_large:
            self.second.start_early()
            if self.divergence.call.can_be_followed:
                self._follow(self.whole)

    def _search_diffuse(self) -> bool:
        """Where no single node of a large graph carries it: what makes its sorts of operations differ, and
        which of these decisions carry it together. False where that is not so, or none are found."""
        if self._trace is None or not is_diffuse(self._trace, self.whole.default):
            return False
        with self.session.clock.stage("localise"):
            info, paths = self.study.describe(WHOLE), localisation.followable(self.whole.default)
            tried = mechanisms(self.study, info, self._trace, paths)
        first, found = next(((m.operation, m.found) for m in tried if m.found is not None), ("", None))
        if found is None:
            return False
        self._say("localise", steps.OperationsDiffer(len(tried)))
        self._begin_with(starting_case.at_operation(first, found))
        self.study = replace(self.study, small=TO_THE_BIT)
        self.study.warm(self.start.case)
        self._walk_flags()
        self._look_for_family(tried, ())
        if self.family is None:
            self.study = replace(self.study, small=self.divergence.study.small)
            self._begin_with(self.whole)
            return False
        decided = Decided(self.start.case, self.start.default.measurement.decisions)
        self._confirm(decided)
        reduced = self._reduce(self.start, Anchor((found.repair,)))
        self._reproduce(reduced.case)
        return True

    def _begin_in_region(self) -> None:
        """The search of a large graph begins in a region that diverges in the same way."""
        if self.divergence.call.is_large:
            with self.session.clock.stage("localise"):
                default, verdict = self.whole.default, self.divergence.verdict.kind
                followed = self.followed or Followed()
                call = self.divergence.call
                self._begin_with(starting_case.region_of(self.study, call, followed, default, verdict))
            if self.start.scope is Scope.REGION:
                calls = len(self.study.describe(self.start.case).calls)
                self._say("localise", steps.RegionDiverges(calls, self.divergence.call.nodes))
        # It came back in a probe, so it will in the worker itself, and halves every later probe.
        self.study.warm(self.start.case)

    def _begin_again(self) -> None:
        """Nothing that repairs the region repairs the whole: the whole is searched."""
        self._say("localise", steps.RegionRefuted())
        self._begin_with(replace(self.whole, notes=(RegionRefuted(),)))

    def _search(self) -> bool:
        """False where this looked into a region whose repairs leave the whole diverging, which is seen before
        the region is made smaller."""
        self._walk_flags()
        if self.start.scope is Scope.REGION:
            decided = self._decide(self.start)
            confirmed = self._confirm(decided)
            if not (confirmed.held or self.walk.repairs_something or self.family):
                return False
            case = self._reduce_held(decided)
            self._follow_small(case)
            self._reproduce(case)
            return True
        if self._to_follow:
            self._follow(self.start)
        case = self._decide_and_reduce()
        self._follow_small(case)
        self._reproduce(case)
        return True

    @property
    def _to_follow(self) -> bool:
        """Whether the case that the search begins with is still to be followed."""
        if self.start.scope is Scope.REGION or not self.divergence.call.can_be_followed:
            return False
        return self.followed is None or (self.followed.trace is None and self.start.case != WHOLE)

    def _asked_next(self) -> list[Request[Any]]:
        """What is asked after the flags."""
        minimizing = self.session.options.command == "minimize"
        wanted = minimizing and self._to_follow and localisation.followable(self.start.default)
        found = localisation.next_request(self.study, self.start.case, self.start.default) if wanted else None
        return [found] if found is not None else []

    def _follow(self, start: Start) -> None:
        """Where the difference arises and grows; the class follows from it where the case has every node."""
        with self.session.clock.stage("localise"):
            self.followed = found = localisation.follow(self.study, start.case, start.default)
        if found.origin is not None:
            amplifier = found.amplifier.name if found.amplifier is not None else None
            self._say("localise", steps.Begins(found.origin.name, amplifier))

    def _follow_small(self, case: Case) -> None:
        """Of a graph too large to be followed the smallest case; its trace says nothing of the whole."""
        if not self.divergence.call.can_be_followed:
            self._follow(Start(case, self.study.probe(Candidate(), case)))
            self.followed = replace(self.followed or Followed(), trace=None, graph=None)

    def _walk_flags(self) -> None:
        """The catalogue, with what is asked after it."""
        with self.session.clock.stage("minimize"):
            self.start = starting_case.part_of(self.study, self.divergence.call, self.start)
        self.study.lab.ahead(self._asked_next())
        self._walk(of_call(self.divergence.call.devices))

    def _decide_and_reduce(self) -> Case:
        """A graph of few calls is searched before it is reduced; a large one is reduced first, held by what
        repairs it at the least cost."""
        self.second.start_early()
        if self.divergence.call.is_large:
            reduced = self._reduce(self.start, self._anchor())
            self._confirm(self._decide(Start(reduced.case, reduced.default)))
            return reduced.case
        decided = self._decide(self.start)
        self._confirm(decided)
        return self._reduce_held(decided)

    def _anchor(self) -> Anchor | None:
        """What must go on repairing smaller cases: a flag, a set of flags, or one repair by decisions."""
        if self.walk.fixes:
            return Anchor((frozenset({config_id(self.walk.fixes[0].flag.name)}),))
        if self.walk.sets:
            return Anchor((frozenset(config_id(name) for name in self.walk.sets[0]),))
        with self.session.clock.stage("causes"):
            repair = one_repair(self.study, self.start.case, self.start.default, self._suspects())
        if repair is None:
            self.anchor_notes = (NoRepairKnown(),)
            return None
        self.group = repair
        self._say("causes", steps.OneRepair(repair.members))
        return Anchor((frozenset(repair.members),))

    def _reduce_held(self, decided: Decided) -> Case:
        """The smallest case, held to the same bug by the repairs that were decided."""
        if not self.session.options.minimal:
            self.anchor_notes = (NotMinimized(),)
            return self.start.case
        return self._reduce(self.start, anchored_by(decided.sets.repairs) or self._anchor()).case

    def _reduce(self, start: Start, anchor: Anchor | None, passes: Pass = reduce) -> Reduced:
        found = super()._reduce(start, anchor, passes)
        info = self.study.describe(found.case)
        self._say("minimize", steps.Smaller(len(info.calls), info.elements))
        return found

    def _confirm(self, decided: Decided) -> Confirmed:
        """What a second worker says of the sets, or of the family in their place."""
        found = super()._confirm(decided)
        self._grade_group(found)
        return found

    def _asked_second(self, decided: Decided) -> Confirmed:
        if self.family is not None:
            return self._family_seen_again(decided, self.family)
        found = super()._asked_second(decided)
        if self.start.scope is Scope.REGION and not found.held:
            return self._confirm_on_whole(decided, found)
        return found

    def _family_seen_again(self, decided: Decided, family: FoundFamily) -> Confirmed:
        # What holds on the region and not on the whole is no reason, and is not asked about.
        region = Decided(decided.case, decided.decisions)
        found = self._ask_second(region, None, family.family.members)
        if found.family is not None:
            self.family = seen_again(family, *found.family)
        return found

    def _confirm_on_whole(self, decided: Decided, found: Confirmed) -> Confirmed:
        """Where what repairs the region leaves the whole diverging: a family, or a finer place."""
        self._look_for_family((), decided.sets.repairs)
        if self.family is not None:
            return replace(self._family_seen_again(decided, self.family), repairs=found.repairs)
        if self.walk.repairs_something:
            return found
        with self.session.clock.stage("causes"):
            # A finer decision at the origin can leave elements of the whole that the region lacks.
            origin = self.followed.origin if self.followed is not None else None
            place = starting_case.place_repair(self.study, origin, self.start.case, self.start.default)
            return confirm_also(self._confirming(), found, place) if place is not None else found

    def _look_for_family(self, known: Sequence[Mechanism], repairs: Sequence[MinimalSet[DecisionId]]) -> None:
        """Which decisions together repair the whole, or carry much of its divergence. known: what makes its
        operations differ. repairs: of a part."""
        repairing = frozenset[str]().union(*(patterns(repair.members) for repair in repairs))
        with self.session.clock.stage("causes"):
            found = family_of_whole(
                self.study, self.whole.default, self._trace, known, self.walk.suspected, repairing
            )
        if found is not None and found.family.repairs and len(found.family.members) <= FEW:
            with self.session.clock.stage("causes"):
                self.of_whole = self.group = smallest_on_whole(self.study, found.family.members)
            return
        # Shares of what is amplified mean nothing.
        shares = self._verdict().kind is not VerdictClass.AMPLIFIED_ROUNDING
        if found is not None and (found.family.repairs or shares):
            self.family = found
            removed = None if found.family.repairs else found.family.removed
            self._say("causes", steps.FamilyCarries(len(found.family.members), removed))

    def _grade_group(self, found: Confirmed) -> None:
        """What the members of a group carry that repairs the case, where nothing smaller is confirmed."""
        if self.group is None or found.second is None or any(r.confirmed for r in found.repairs):
            return
        try:
            with self.session.clock.stage("causes"):
                start, members = self.start, self.group.members
                self.graded = grade(self.study, start.case, start.default, members, repairs=True)
        except BudgetSpent as spent:
            self._stopped(spent.reason)

    def _reproduce(self, case: Case) -> None:
        super()._reproduce(case)
        self._compare(case)

    def _conclude(self, case: Case) -> Conclusion:
        assert self.preflight is not None and self.confirmed is not None
        return conclude_call(
            self.study, case, self.preflight, self.walk, self.confirmed, self.answer().proved_kinds,
            self.reductions,
        )  # fmt: skip

    def _compare(self, case: Case) -> None:
        """The nearest case that agrees, and the difference of its code as a file."""
        answer = self.answer()
        repairs = [repair.found for repair in answer.repairs if repair.confirmed]
        flags = [fix for fix, _ in answer.fixes if fix.kind == "flag"]
        try:
            with self.session.clock.stage("minimize"):
                self.neighbour = found = nearest(self.study, case, repairs, flags)
        except BudgetSpent as spent:
            self._stopped(spent.reason)
            return
        if found is not None and found.diff:
            self.session.run.write_text(self.session.run.neighbour, "\n".join(found.diff) + "\n")
