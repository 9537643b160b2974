"""Two configurations, one that agrees and one that diverges: which of their settings make the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisector.core.case import WHOLE, Case
from bisector.core.decision import DecisionId
from bisector.core.endings import (
    AnotherOutcome,
    EndedByError,
    NoContrast,
    SetsDoNotHold,
    SetsNothing,
    Unconfirmed,
)
from bisector.core.flags import Contrast, FlagWalk, Settings
from bisector.core.model import Candidate, ProbeResult
from bisector.core.options import Against
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import Members, MinimalSet
from bisector.core.search.sets import all_sets
from bisector.errors import BadOption, NumbisectError

from ..confirmation import other_call
from ..divergence import Divergence
from ..questions import DecisionTest
from ..rounds import in_rounds
from ..run import Session
from ..study import Study, config_id, flag_of

# More sets of settings than this tell the user nothing; the search stops there and says so.
MOST_SETS = 4
CONSERVATIVE = "conservative values"  # of every flag that acts


class Between(DecisionTest):
    """The diverging configuration with the members as the agreeing one has them.

    good, bad: the values of the settings in which the two differ. as_is: what the subject has without any,
    and default: what the case gives then, which is not asked again.
    """

    def __init__(
        self, study: Study, case: Case, default: ProbeResult, good: Settings, bad: Settings, as_is: Settings
    ) -> None:
        super().__init__(study, case)
        self.default, self.good, self.bad, self.as_is = default, good, bad, as_is
        self.elements = [config_id(name) for name in good]

    def candidate(self, members: Members[DecisionId]) -> Candidate:
        changed = {flag_of(member) for member in members}
        values = {name: self.good[name] if name in changed else value for name, value in self.bad.items()}
        return Candidate.with_flags({n: v for n, v in values.items() if v != self.as_is[n]})

    def ask(self, members: Members[DecisionId]) -> ProbeResult:
        return super().ask(members) if self.candidate(members).flags else self.default

    @property
    def target(self) -> Outcome:
        """What the subject's own configuration is taken for."""
        return Outcome.FAIL if self.bad == {n: self.as_is[n] for n in self.bad} else Outcome.PASS


def contrast(between: Between, name: str, likely: Sequence[Members[DecisionId]] = ()) -> Contrast:
    """Search both ways. Each set works alone, and each of its members was left out once.

    likely: sets that are worth a probe each before any bisection.
    """
    whole = frozenset(between.elements)
    diverging, agreeing = frozenset[DecisionId](), whole
    for members, wanted in ((diverging, Outcome.FAIL), (agreeing, Outcome.PASS)):
        if (found := between.ask(members)).outcome is not wanted:
            settings = None if wanted is between.target else name
            unknown = AnotherOutcome(settings, found.outcome, wanted)
            return Contrast(name, between.target, unknown=unknown)
    sets = all_sets(between.elements, lambda s: between(whole - s), between, MOST_SETS, likely)
    return Contrast(
        name,
        between.target,
        _settings(sets.repairs, between.good),
        _settings(sets.causes, between.bad),
        sets.stopped_because,
    )


@in_rounds
def brought_back(study: Study, walk: FlagWalk, case: Case, default: ProbeResult) -> Contrast | None:
    """Which flags, as they are, make the case diverge when all others that act are conservative; None where
    no flag acts."""
    acting = walk.programs(default.measurement)
    if not acting:
        return None
    good = {t.flag.name: t.flag.conservative for t in acting}
    as_is = {t.flag.name: t.default for t in acting}
    likely = [frozenset(config_id(t.flag.name) for t in acting if t.role == "fix")]
    between = Between(study, case, default, good, as_is, as_is)
    return contrast(between, CONSERVATIVE, [s for s in likely if s])


def _settings(sets: Sequence[MinimalSet[DecisionId]], values: Settings) -> tuple[Settings, ...]:
    confirmed = [found.members for found in sets if found.confirmed]
    return tuple({flag_of(m): values[flag_of(m)] for m in members} for members in confirmed)


def against(session: Session, divergence: Divergence, other: Against) -> Contrast:
    """Which settings make the difference. Raises BadOption for a flag that this torch does not have."""
    study = divergence.study
    as_is = {name: found.value for name, found in study.settings(list(other.settings)).items()}
    if absent := [name for name in other.settings if name not in as_is]:
        raise BadOption(f"--against {other.name}: this torch has no flag {absent[0]}; leave it out")
    theirs = {name: value for name, value in other.settings.items() if value != as_is[name]}
    ours = {name: as_is[name] for name in theirs}
    here = divergence.default.outcome
    if not theirs:
        return Contrast(other.name, here, unknown=SetsNothing(other.name))
    if here is Outcome.FAIL:
        return _proved(session, divergence, Sides(theirs, ours, as_is), other.name)
    there = study.probe(Candidate.with_flags(theirs))
    if {here, there.outcome} != {Outcome.PASS, Outcome.FAIL}:
        return Contrast(other.name, here, unknown=NoContrast(other.name, here, there.outcome))
    study = replace(study, signatures=there.signatures)  # of the one that diverges, and no other bug's
    return _proved(session, replace(divergence, study=study), Sides(ours, theirs, as_is), other.name)


@dataclass(frozen=True)
class Sides:
    """The settings of the configuration that agrees, of the one that diverges, and those of the target."""

    good: Settings
    bad: Settings
    as_is: Settings


def _proved(session: Session, divergence: Divergence, sides: Sides, name: str) -> Contrast:
    """What makes the difference, and holds in a second process too."""
    found = _on_whole(divergence.study, divergence.default, sides, name)
    if not (found.repairs or found.causes):
        return found
    second = divergence.second_worker(session)
    study = divergence.confirming(divergence.study, second)
    try:
        unlike = other_call(study, divergence.call)
        default = study.probe(Candidate())
        again = Between(study, WHOLE, default, sides.good, sides.bad, sides.as_is)
        whole = frozenset(again.elements)
        repairs = tuple(s for s in found.repairs if _holds(again, _members(s), Outcome.PASS))
        causes = tuple(s for s in found.causes if _holds(again, whole - _members(s), Outcome.FAIL))
    except NumbisectError as error:
        unlike, repairs, causes = EndedByError(str(error)), (), ()
    if unlike is not None:
        repairs, causes = (), ()
    lost = len(found.repairs) + len(found.causes) - len(repairs) - len(causes)
    unknown = Unconfirmed(unlike or SetsDoNotHold(lost)) if lost else found.unknown
    return replace(found, repairs=repairs, causes=causes, unknown=unknown)


def _members(settings: Settings) -> Members[DecisionId]:
    return frozenset(map(config_id, settings))


def _holds(again: Between, members: Members[DecisionId], wanted: Outcome) -> bool:
    """Whether the members give this outcome there, and neither end of the comparison does both."""
    ends = again.ask(frozenset()).outcome, again.ask(frozenset(again.elements)).outcome
    return ends == (Outcome.FAIL, Outcome.PASS) and again.ask(members).outcome is wanted


@in_rounds
def _on_whole(study: Study, default: ProbeResult, sides: Sides, name: str) -> Contrast:
    return contrast(Between(study, WHOLE, default, sides.good, sides.bad, sides.as_is), name)
