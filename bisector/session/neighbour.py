"""The nearest neighbour of the minimal case that agrees, and what is different in its generated code."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from bisector.core.case import Case
from bisector.core.model import Candidate, Outcome

from ..core.reduction.reduce import neighbours
from ..core.search.minimal import MinimalSet
from .fixes import Fix
from .search_order import listed
from .study import Study

MOST_OF_EACH = 3  # repairs and flags; each may take a probe
CONTEXT = 2  # lines around one that differs


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


def nearest(
    study: Study, case: Case, repairs: Sequence[MinimalSet], flags: Sequence[Fix]
) -> Neighbour | None:
    """Of what agrees and differs in one decision or flag, what changes the fewest lines of code; where none
    does, of what differs in one call or length. None where nothing of the kind agrees."""
    denied = [(f"disabling {listed(r.members)}", study.deny(frozenset(r.members)), case) for r in repairs]
    turned = [
        (f"with {fix.id}", Candidate.with_flags(fix.values), case) for fix in flags if fix.values is not None
    ]
    found = _agreeing(study, case, [*denied[:MOST_OF_EACH], *turned[:MOST_OF_EACH]])
    if all(neighbour.changed == 0 for neighbour in found):
        others = neighbours(case.rebased(), study.describe(case))
        found += _agreeing(study, case, [(text, Candidate(), other) for text, other in others])
    return min(found, key=lambda n: (n.changed == 0, n.changed), default=None)


def _agreeing(
    study: Study, case: Case, offered: Sequence[tuple[str, Candidate, Case]]
) -> list[Neighbour]:
    """Those of (what is different, candidate, case) that agree, with the difference of their code."""
    results = study.probe_all([(candidate, other) for _, candidate, other in offered])
    agreeing = [o for o, r in zip(offered, results, strict=True) if r.outcome is Outcome.PASS]
    if not agreeing:
        return []
    asked = [(Candidate(), case), *((candidate, other) for _, candidate, other in agreeing)]
    diverging, *texts = study.sources(asked)
    return [Neighbour(o[0], _difference(diverging, text)) for o, text in zip(agreeing, texts, strict=True)]


def _difference(diverging: str | None, agreeing: str | None) -> tuple[str, ...]:
    if diverging is None or agreeing is None:
        return ()
    pair = (diverging.splitlines(), agreeing.splitlines())
    return tuple(difflib.unified_diff(*pair, "diverges", "agrees", lineterm="", n=CONTEXT))
