"""All minimal causes and all minimal repairs, each view telling where to look in the other.

A repair must break every cause, so it is a hitting set of the causes; a hitting set that does not repair
proves a cause that is not found yet, outside of it (Reiter 1987; Liffiton et al. 2016, MARCO).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisector.core.model import Outcome
from bisector.core.probe import BudgetSpent
from bisector.core.search.ahead import Inverted, Test
from bisector.core.search.hitting import minimal_hitting_sets
from bisector.core.search.minimal import Asked, MinimalSet, minimal_set, one_minimal

Members = tuple[str, ...]
# The elements that exist only while these are denied; known ones may be among them.
Appeared = Callable[[frozenset[str]], Sequence[str]]
# Told of a set to deny and one to enable before either is asked: with lanes to spare both are probed at once.
Ahead = Callable[[frozenset[str], frozenset[str]], None]


def _nothing_new(denied: frozenset[str]) -> Sequence[str]:
    return ()


def _one_by_one(denied: frozenset[str], enabled: frozenset[str]) -> None:
    """Nothing is probed before it is asked."""


@dataclass(frozen=True)
class SetsFound:
    """The causes and repairs that were found, and what could not be told.

    unresolved: sets that, denied, could not be judged; each would be a repair or hide another cause.
    unexplained: sets that hit every cause found, yet do not repair, while enabling all the rest over the
    plain baseline does not FAIL: one of the two compiles has a decision that the other has not.
    rest_unresolved: sets of which could not be judged whether denying everything else repairs; a repair
    that has none of their members may be missing.
    stopped_because: why the search ended before nothing was left to try; None if it did not.
    """

    causes: tuple[MinimalSet, ...] = ()
    repairs: tuple[MinimalSet, ...] = ()
    unresolved: tuple[Members, ...] = ()
    unexplained: tuple[Members, ...] = ()
    rest_unresolved: tuple[Members, ...] = ()
    stopped_because: str | None = None


def all_sets(
    elements: Sequence[str],
    enabled: Test,
    denied: Test,
    limit: int,
    likely: Sequence[frozenset[str]] = (),
    appeared: Appeared = _nothing_new,
    ahead: Ahead = _one_by_one,
) -> SetsFound:
    """Find every minimal cause and every minimal repair, at most `limit` of each (a gap counts as a repair).

    enabled(S): only S enabled over the plain baseline. denied(S): S denied over the default compile. The
    caller has probed enabled(nothing) PASS, enabled(all) FAIL, denied(nothing) FAIL and denied(all) PASS;
    these are not probed again, and no set is asked twice in one view.

    likely: sets to look into first (see minimal_set). They save probes, and change no answer's proof.
    ahead: see `Ahead`.
    appeared(S): asked where denying S, which the causes would have repair, does not: what came up instead
    joins the elements.

    The two views need not mirror each other, as denying a decision can make others appear or vanish. So
    every set is proved in its own view, and where the views are seen to disagree, or something could not be
    judged, repairs are also searched for without the help of the causes. A disagreement that none of the
    probes made here shows can still hide a set.
    A spent budget ends the search like the limit: with what was found so far.
    """
    shared = list(elements)
    causes = _Causes(shared, enabled, likely)
    repairs = _Repairs(shared, denied, likely, appeared)
    try:
        stopped_because = _search_both(causes, repairs, limit, ahead)
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
    elements: Sequence[str],
    denied: Test,
    limit: int,
    likely: Sequence[frozenset[str]] = (),
    appeared: Appeared = _nothing_new,
) -> SetsFound:
    """Find minimal repairs, at most `limit`, where no plain baseline can be built.

    The caller has probed denied(nothing) FAIL and denied(all) PASS. Every repair is found unless one is
    missing for a reason given in the answer. Sets that no repair can do without count towards the limit too:
    each costs a probe to establish, and there can be many.
    """
    repairs = _Repairs(list(elements), denied, likely, appeared)
    try:
        stopped_because = repairs.search(limit)
    except BudgetSpent as spent:
        stopped_because = spent.reason
    return SetsFound(
        repairs=tuple(repairs.found),
        rest_unresolved=tuple(repairs.rest_unresolved),
        stopped_because=stopped_because,
    )


def _search_both(causes: _Causes, repairs: _Repairs, limit: int, ahead: Ahead) -> str | None:
    """Try hitting sets of the causes until none is left; return why it stopped before, if it did.

    One that does not repair is followed by the question whether enabling all the rest FAILs, so both are told
    ahead: a repair wastes the second.
    """
    while True:
        unsettled = repairs.unresolved + causes.unexplained
        known_repairs = [frozenset(repair.members) for repair in repairs.found]
        hitting = _untried(causes.found, blocked=known_repairs, tried=unsettled)
        if hitting is None:
            return None
        if len(repairs.found) + len(unsettled) >= limit:
            return _limit_reached(limit)
        if not repairs.knows(hitting):
            ahead(hitting, frozenset(_outside(causes.elements, hitting)))
        outcome = repairs.denied(hitting)
        if outcome is Outcome.PASS:
            repairs.add_inside(hitting)
            continue
        if len(causes.found) >= limit:
            return _limit_reached(limit)
        # Also where denying it is UNRESOLVED: once a cause outside is known, this set need not be judged.
        if causes.find_outside(hitting):
            continue
        instead = repairs.grow(hitting) if outcome is Outcome.FAIL else frozenset()
        if instead and _took_its_place(causes, repairs, hitting, instead):
            continue
        gaps = causes.unexplained if outcome is Outcome.FAIL else repairs.unresolved
        gaps.append(_inside(causes.elements, hitting))


def _took_its_place(
    causes: _Causes, repairs: _Repairs, hitting: frozenset[str], instead: frozenset[str]
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


class _Causes:
    """What is known over the plain baseline."""

    def __init__(self, elements: list[str], enabled: Test, likely: Sequence[frozenset[str]]) -> None:
        self.elements = elements  # shared with the repairs, which add what appears
        self._likely = likely
        self._enabled = Asked(enabled, [((), Outcome.PASS), (elements, Outcome.FAIL)])
        self.found: list[MinimalSet] = []
        self.unexplained: list[Members] = []

    def find_outside(self, hitting: frozenset[str]) -> bool:
        """Add a cause that has no member in `hitting`, so a new one; False if there is none to be seen."""
        rest = _outside(self.elements, hitting)
        if self._enabled(frozenset(rest)) is not Outcome.FAIL:
            return False
        self.found.append(minimal_set(rest, self._enabled, likely=self._likely))
        return True


class _Repairs:
    """What is known over the default compile. Searched upside down: there a repair is a set that FAILs."""

    def __init__(
        self, elements: list[str], denied: Test, likely: Sequence[frozenset[str]], appeared: Appeared
    ) -> None:
        self._elements = elements
        self._appeared = appeared
        self._likely = likely
        known = [((), Outcome.PASS), (elements, Outcome.FAIL)]
        self._inverted = Asked(Inverted(denied), known)
        self.found: list[MinimalSet] = []
        self.unresolved: list[Members] = []
        self.rest_unresolved: list[Members] = []
        self.unexpected = False

    def denied(self, members: frozenset[str]) -> Outcome:
        return self._inverted(members).inverted()

    def knows(self, members: frozenset[str]) -> bool:
        return self._inverted.knows(members)

    def grow(self, denied: frozenset[str]) -> frozenset[str]:
        """Take what exists only while these are denied into the elements; returns what is new of it."""
        fresh = [e for e in self._appeared(denied) if e not in self._elements]
        self._elements += fresh
        return frozenset(fresh)

    def add_inside(self, repairing: frozenset[str]) -> None:
        """Add a minimal repair within a set that repairs."""
        members = _inside(self._elements, repairing)
        repair = one_minimal(members, self._inverted).inverted()
        self.found.append(repair)
        # Without any one of its members a minimal hitting set lets a cause through; here it still repaired.
        self.unexpected |= len(repair.members) < len(members)

    def search(self, limit: int) -> str | None:
        """Find repairs that avoid a hitting set of those found, until none is left; return why it stopped."""
        indispensable: list[frozenset[str]] = []  # each repair, found or not, has a member of each
        while True:
            avoided = _untried(self.found, blocked=indispensable, tried=self.rest_unresolved)
            if avoided is None:
                return None
            if max(len(self.found), len(indispensable) + len(self.rest_unresolved)) >= limit:
                return _limit_reached(limit)
            rest = _outside(self._elements, avoided)
            outcome = self.denied(frozenset(rest))
            if outcome is Outcome.PASS:
                self.found.append(minimal_set(rest, self._inverted, likely=self._likely).inverted())
            elif outcome is Outcome.FAIL:
                if not self.grow(frozenset(rest)):  # else the same is asked with what appeared denied too
                    indispensable.append(avoided)
            else:
                self.rest_unresolved.append(_inside(self._elements, avoided))


def _untried(
    found: Sequence[MinimalSet], blocked: Sequence[frozenset[str]], tried: Sequence[Members]
) -> frozenset[str] | None:
    """The smallest minimal hitting set of the found sets that was not tried and contains no blocked one."""
    hitting_sets = minimal_hitting_sets([minimal.members for minimal in found], blocked)
    past = {frozenset(members) for members in tried}
    return next((hitting for hitting in hitting_sets if hitting not in past), None)


def _inside(elements: Sequence[str], members: frozenset[str]) -> Members:
    return tuple(element for element in elements if element in members)


def _outside(elements: Sequence[str], members: frozenset[str]) -> Members:
    return tuple(element for element in elements if element not in members)


def _limit_reached(limit: int) -> str:
    return f"the limit of {limit} sets is reached"
