"""Cases that are smaller than the whole: where a search begins, and what was found on the way."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from .case import Case
from .decision import DecisionId
from .endings import Ending
from .graphinfo import Axis
from .model import ProbeResult
from .notes import Note
from .outcome import Outcome

# That each member of a repair is needed is asked of repairs up to this size: a probe for each member.
NEEDED_EACH = 3


@dataclass(frozen=True)
class Anchor:
    """What holds a smaller case to the same bug: every one of these repairs must go on repairing it, and
    none may do so without one of its members. All repairs are asked for, not the best alone, since a case
    that needs fewer decisions to go wrong has other repairs missing."""

    repairs: tuple[frozenset[DecisionId], ...]

    def demands(self) -> list[tuple[frozenset[DecisionId], Outcome]]:
        """Sets to deny, with the outcome that a case must give."""
        asked: dict[frozenset[DecisionId], Outcome] = dict.fromkeys(self.repairs, Outcome.PASS)
        for repair in self.repairs:
            if 1 < len(repair) <= NEEDED_EACH:
                asked.update({repair - {m}: Outcome.FAIL for m in sorted(repair)})
        return list(asked.items())

    def nodes(self) -> frozenset[str]:
        """The nodes of the graph that the repairs decide about."""
        return frozenset(m.forward_node for r in self.repairs for m in r)

    def needed(self) -> frozenset[str]:
        """Those of these nodes without which a case cannot meet the demands: a decision that never comes up
        repairs nothing, and is no member that a repair needs."""
        return frozenset(m.forward_node for r in self.repairs if len(r) <= NEEDED_EACH for m in r)


@dataclass(frozen=True)
class AlsoSeen:
    """A smaller case that shows another divergence than the one under study: kept aside, never taken."""

    what: Note
    case: Case


@dataclass
class Reduced:
    """The smallest case found, its default compile, why it is not smaller if a budget ended it, and what else
    diverged on the way, the latest of each sort. uncut: see `Problem.uncut`."""

    case: Case
    default: ProbeResult
    uncut: dict[Axis, int]
    also_seen: Sequence[AlsoSeen] = ()
    stopped_because: Ending | None = None


@dataclass(frozen=True)
class Neighbour:
    """differs_by: what must change in the minimal case. diff: the generated code of the two, as a unified
    difference of the lines that differ; empty where the code is the same, or is not known."""

    differs_by: str
    diff: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """Lines that are in one of the two alone."""
        return sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in self.diff)


class Scope(enum.Enum):
    """How the case that a search begins with lies in the subject."""

    WHOLE = "whole"
    PART = "part"  # all calls, on a part of the inputs
    REGION = "region"  # some of the calls
    GRAPHS = "graphs"  # of a script some of the graphs, the others uncompiled


@dataclass(frozen=True)
class Start:
    """case, default: where the search begins, which diverges as the whole does, and its default compile.

    reductions: what was made smaller on the way here.
    """

    case: Case
    default: ProbeResult
    scope: Scope = Scope.WHOLE
    reductions: tuple[Reduced, ...] = ()
    notes: tuple[Note, ...] = ()
