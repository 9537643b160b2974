"""On which side of the last two builds the change is: their Python and their binaries, crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisector.builds.swap import Crossed, Side, side
from bisector.core.ladder import Bracket
from bisector.core.model import Outcome
from bisector.core.probe import BudgetSpent

from .asking import Asking, Tried

_SAYS = {
    Side.PYTHON: "",
    Side.BINARY: "the change needs a build: it comes with the binary, whichever Python is over it",
    Side.EITHER: "the later Python and the later binary bring it each by itself",
    Side.BOTH: "it takes the later Python and the later binary together",
}


@dataclass(frozen=True)
class Sided:
    """side: None where the crossed builds cannot tell. reason: why no single commit can be looked for without
    a build, empty where it can; tried: the crossed builds."""

    side: Side | None
    reason: str
    tried: Sequence[Tried]


def sided(asking: Asking, crossed: Crossed, bracket: Bracket) -> Sided:
    """Two runs more. asking: of the crossed builds."""
    newer_python = crossed.named(python=bracket.after, binary=bracket.before)
    newer_binary = crossed.named(python=bracket.before, binary=bracket.after)
    try:
        found = side(asking(newer_python), asking(newer_binary))
    except BudgetSpent as spent:
        return Sided(None, spent.reason, list(asking.tried.values()))
    tried = list(asking.tried.values())
    if found is not None:
        return Sided(found, _SAYS[found], tried)
    unable = next(t for t in tried if t.told.outcome is Outcome.UNRESOLVED)
    return Sided(None, f"{unable.name} cannot tell: {unable.reason}", tried)
