"""All minimal causes and all minimal repairs, each view telling where to look in the other.

A repair must break every cause, so it is a hitting set of the causes; a hitting set that does not repair
proves a cause that is not found yet, outside of it (Reiter 1987; Liffiton et al. 2016, MARCO).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from bisector.core.outcome import Outcome

from ..budget import BudgetSpent
from ..endings import Ending, SetsReached
from ..notes import Note
from ..search_notes import DeniedUnexplained, DeniedUnjudged, RestUnjudged
from .minimal import E, MinimalSet, Test
from .views import Appeared, Causes, Members, Repairs, inside, untried


def _nothing_new(denied: frozenset[E]) -> Sequence[E]:
    return ()


@dataclass(frozen=True)
class SetsFound(Generic[E]):
    """The causes and repairs that were found, and what could not be decided.

    unresolved: sets that, denied, could not be judged; each would be a repair or hide another cause.
    unexplained: sets that hit every cause found, yet do not repair, while enabling all the rest over the
    plain baseline does not FAIL: one of the two compiles has a decision that the other has not.
    rest_unresolved: sets of which could not be judged whether denying everything else repairs; a repair
    that has none of their members may be missing.
    stopped_because: why the search ended before nothing was left to try; None if it did not.
    """

    causes: tuple[MinimalSet[E], ...] = ()
    repairs: tuple[MinimalSet[E], ...] = ()
    unresolved: tuple[Members[E], ...] = ()
    unexplained: tuple[Members[E], ...] = ()
    rest_unresolved: tuple[Members[E], ...] = ()
    stopped_because: Ending | None = None

    @property
    def gaps(self) -> tuple[Note, ...]:
        """Why the causes and repairs that were found may not be all."""
        possible_gaps = (
            DeniedUnjudged(self.unresolved),
            DeniedUnexplained(self.unexplained),
            RestUnjudged(self.rest_unresolved),
        )
        return tuple(gap for gap in possible_gaps if gap.sets)


def all_sets(
    elements: Sequence[E],
    enabled: Test[E],
    denied: Test[E],
    limit: int,
    likely: Sequence[frozenset[E]] = (),
    appeared: Appeared[E] = _nothing_new,
) -> SetsFound[E]:
    """Find every minimal cause and every minimal repair, at most `limit` of each (a gap counts as a repair).

    enabled(S): only S enabled over the plain baseline. denied(S): S denied over the default compile. The
    caller has probed enabled(nothing) PASS, enabled(all) FAIL, denied(nothing) FAIL and denied(all) PASS;
    these are not probed again, and no set is asked twice in one view.

    likely: sets to look into first (see minimal_set). They save probes, and change no answer's proof.
    appeared(S): asked where denying S, which the causes would have repair, does not: what came up instead
    joins the elements.

    The two views need not mirror each other, as denying a decision can make others appear or vanish. So
    every set is proved in its own view, and where the views are seen to disagree, or something could not be
    judged, repairs are also searched for without the help of the causes. A disagreement that none of the
    probes made here shows can still hide a set.
    A spent budget ends the search like the limit: with what was found so far.
    """
    shared = list(elements)
    causes = Causes(shared, enabled, likely)
    repairs = Repairs(shared, denied, likely, appeared)
    try:
        stopped_because = _search_both(causes, repairs, limit)
        mirrored = not (causes.unexplained or repairs.unresolved or repairs.unexpected)
        if stopped_because is None and not mirrored:
            stopped_because = repairs.search(limit)
    except BudgetSpent as spent:
        stopped_because = spent.reason
    return SetsFound(
        causes=tuple(causes.found),
        repairs=tuple(repairs.found),
        unresolved=tuple(repairs.unresolved),
        unexplained=tuple(causes.unexplained),
        rest_unresolved=tuple(repairs.rest_unresolved),
        stopped_because=stopped_because,
    )


def repairs_only(
    elements: Sequence[E],
    denied: Test[E],
    limit: int,
    likely: Sequence[frozenset[E]] = (),
    appeared: Appeared[E] = _nothing_new,
) -> SetsFound[E]:
    """Find minimal repairs, at most `limit`, where no plain baseline can be built.

    The caller has probed denied(nothing) FAIL and denied(all) PASS. Every repair is found unless one is
    missing for a reason given in the answer. Sets that no repair can do without count towards the limit too:
    each costs a probe to establish, and there can be many.
    """
    repairs = Repairs(list(elements), denied, likely, appeared)
    try:
        stopped_because = repairs.search(limit)
    except BudgetSpent as spent:
        stopped_because = spent.reason
    return SetsFound(
        repairs=tuple(repairs.found),
        rest_unresolved=tuple(repairs.rest_unresolved),
        stopped_because=stopped_because,
    )


def _search_both(causes: Causes[E], repairs: Repairs[E], limit: int) -> Ending | None:
    """Try hitting sets of the causes until none is left; return why it stopped before, if it did."""
    while True:
        unsettled = repairs.unresolved + causes.unexplained
        known_repairs = [frozenset(repair.members) for repair in repairs.found]
        hitting = untried(causes.found, blocked=known_repairs, tried=unsettled)
        if hitting is None:
            return None
        if len(repairs.found) + len(unsettled) >= limit:
            return SetsReached(limit)
        outcome = repairs.denied(hitting)
        if outcome is Outcome.PASS:
            repairs.add_inside(hitting)
            continue
        if len(causes.found) >= limit:
            return SetsReached(limit)
        # Also where denying it is UNRESOLVED: once a cause outside is known, this set need not be judged.
        if causes.find_outside(hitting):
            continue
        instead = repairs.grow(hitting) if outcome is Outcome.FAIL else frozenset()
        if instead and _took_its_place(causes, repairs, hitting, instead):
            continue
        gaps = causes.unexplained if outcome is Outcome.FAIL else repairs.unresolved
        gaps.append(inside(causes.elements, hitting))


def _took_its_place(
    causes: Causes[E], repairs: Repairs[E], hitting: frozenset[E], instead: frozenset[E]
) -> bool:
    """Whether what appeared when `hitting` was denied explains that it did not repair: it makes a cause, or
    denying it as well repairs."""
    if causes.find_outside(hitting):
        return True
    if repairs.denied(hitting | instead) is not Outcome.PASS:
        return False
    repairs.add_inside(hitting | instead)
    repairs.unexpected = True  # no cause known asks for what appeared to be denied
    return True
