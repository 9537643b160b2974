"""How much of a divergence each of several decisions carries, and whether their shares add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..decision import DecisionId

Members = frozenset[DecisionId]
# Which part of the divergence is gone when a set is denied, 0 to 1; None where that is not known.
Removed = Callable[[Members], float | None]

# Shares whose sum is this near to what they remove together count as adding up.
TOLERANCE = 0.1


@dataclass(frozen=True)
class Share:
    """What one decision carries, 0 to 1, seen from both ends; the two are equal where shares add up.

    removed: what denying it alone removes. left: what is left when all the others are denied, None where
    that was not asked for or is not known.
    """

    decision: DecisionId
    removed: float
    left: float | None = None


@dataclass(frozen=True)
class Graded:
    """Shares, the largest first.

    together: what denying all of them removes; None where that is not known or nothing contributes.
    left_out: how many decisions were not tried, or could not be judged, or are not among the largest.
    """

    shares: tuple[Share, ...] = ()
    together: float | None = None
    left_out: int = 0

    @property
    def adds_up(self) -> bool | None:
        """Whether the shares sum to what they remove together; None for fewer than two."""
        if self.together is None or len(self.shares) < 2:
            return None
        return abs(sum(share.removed for share in self.shares) - self.together) <= TOLERANCE


def graded(
    elements: Sequence[DecisionId],
    removed: Removed,
    most: int,
    largest: int,
    known: float | None = None,
    others: bool = False,
) -> Graded:
    """Ask for at most `most` elements, each alone, then for the `largest` of them together.

    known: what denying all the elements removes, if that was seen; it is then not asked again.
    others: ask, too, for all the elements but one.
    Elements that remove nothing alone stay in the list: that several do nothing alone and all of it together
    is what tells a threshold from a sum.
    """
    tried = [(e, removed(frozenset({e}))) for e in elements[:most]]
    rests = {e: removed(frozenset(elements) - {e}) if others else None for e, _ in tried}
    shares = [Share(e, share, _left(rests[e])) for e, share in tried if share is not None]
    shares.sort(key=lambda share: (-share.removed, -(share.left or 0.0)))
    kept = tuple(shares[:largest])
    left_out = len(elements) - len(kept)
    if len(kept) < 2:
        return Graded(kept, kept[0].removed if kept else None, left_out)
    together = known if known is not None and not left_out else removed(frozenset(s.decision for s in kept))
    return Graded(kept, together, left_out)


def _left(removed: float | None) -> float | None:
    return None if removed is None else 1.0 - removed
