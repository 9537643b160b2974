"""What a search of decisions looks into first: the kinds that a flag which repairs governs, and the place
where the difference arises.

What is found there is proved like anything else, and where nothing is, all the rest is searched: a suspicion
saves questions and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bisector.core.model import Signature, kind_of, node_of
from bisector.core.search.ahead import Members
from bisector.core.trace import NodeTrace

BACKWARD = "bwd."  # begins the name of every node of a backward graph
GRADIENT = "grad["
RECOMPUTED = "inline"


@dataclass(frozen=True)
class Suspects:
    """kinds: of decisions. nodes: names of nodes; `prefix` stands for all whose names begin so."""

    kinds: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    prefix: str | None = None

    def sets(self, decision_ids: Sequence[str]) -> list[Members]:
        """Sets worth a question each before any bisection, the narrowest first.

        The kinds are suspected alone and together with what decides where a value is computed, since a
        rounding that a kernel skips shows where the same value was stored.
        """
        choices = [self.kinds, self.kinds | {RECOMPUTED}] if self.kinds else []
        by_kind = [frozenset(i for i in decision_ids if kind_of(i) in kinds) for kinds in choices]
        here = self.here(decision_ids)
        found = [*(some & here for some in by_kind), here, *by_kind]
        return list(dict.fromkeys(some for some in found if some))

    def here(self, decision_ids: Iterable[str]) -> Members:
        """Those that are made where the difference arises; none where that is not known."""
        return frozenset(i for i in decision_ids if self._has(node_of(i)))

    def _has(self, node: str) -> bool:
        return node in self.nodes or (self.prefix is not None and node.startswith(self.prefix))


NOBODY = Suspects()


def suspects(kinds: frozenset[str], origin: NodeTrace | None, signatures: Sequence[Signature]) -> Suspects:
    """The place is the origin with what it reads, since a rounding that is skipped in one node shows in the
    next; the backward graphs where gradients alone diverge."""
    if origin is not None:
        return Suspects(kinds, nodes=frozenset({origin.name, *origin.reads}))
    if signatures and all(s.path.startswith(GRADIENT) for s in signatures):
        return Suspects(kinds, prefix=BACKWARD)
    return Suspects(kinds)
