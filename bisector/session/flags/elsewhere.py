"""Whether fixes hold on other inputs: other values, and another shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from bisector.core.case import WHOLE, Case
from bisector.core.model import Candidate, Outcome
from bisector.core.reduction.inputs import other_shapes

from ..following import arising
from ..study import Study

DRAWS = 4
# Draws of fewer elements show a divergence that one element in 100,000 has; one of many elements does too.
DRAWN_ELEMENTS = 2**21
# Of a node's error: two ways to compute one function, each right to a step, differ by less than either's
# polynomial of ten steps; moved rounding leaves an error as large as it was.
MOSTLY_GONE = 0.25
SHAPES_TRIED = 4  # most graphs take another length of their first axis or of the next


@dataclass(frozen=True)
class Elsewhere:
    """One fix on other inputs.

    tried: inputs that were run. diverging: those that diverge by default. held: of these, where the fix
    makes all agree. failed: inputs that diverge with the fix.
    nearer: the nodes whose error on equal inputs the fix takes away, or most of it: it mends what they give
    to the divergence, and something is left. None where that was not looked at.
    """

    tried: int = 0
    diverging: int = 0
    held: int = 0
    failed: int = 0
    nearer: tuple[str, ...] | None = None

    @property
    def perturbs(self) -> bool:
        """Whether the fix is known to do no more than to move rounding: it fails and takes no part away."""
        return self.failed > 0 and not self.nearer


def elsewhere(study: Study, candidates: Sequence[Candidate]) -> list[Elsewhere | None]:
    """One for each candidate; None where it could not be run on other inputs."""
    info = study.describe(WHOLE)
    draws = max(1, min(DRAWS, DRAWN_ELEMENTS // max(info.elements, 1)))
    shape = _shape(study, list(islice(other_shapes(info), SHAPES_TRIED)))
    asked = [(WHOLE, draws)] + ([(shape, 1)] if shape is not None else [])
    runs = study.on_other_inputs(candidates, asked)
    if not runs:
        return [None] * len(candidates)
    found = [_counted([(run.default, run.fixed[i]) for run in runs]) for i in range(len(candidates))]
    return [
        replace(each, nearer=_nearer(study, fix)) if each.failed else each
        for each, fix in zip(found, candidates, strict=True)
    ]


def _shape(study: Study, cases: Sequence[Case]) -> Case | None:
    """The first that the graph takes."""
    return next((case for case in cases if study.takes(case)), None)


def _counted(outcomes: Sequence[tuple[Outcome, Outcome]]) -> Elsewhere:
    """outcomes: by default and with the fix, on each draw."""
    return Elsewhere(
        tried=len(outcomes),
        diverging=sum(default is Outcome.FAIL for default, _ in outcomes),
        held=outcomes.count((Outcome.FAIL, Outcome.PASS)),
        failed=sum(fixed is Outcome.FAIL for _, fixed in outcomes),
    )


def _nearer(study: Study, fix: Candidate) -> tuple[str, ...] | None:
    before, after = (arising(study, WHOLE, candidate) for candidate in (Candidate(), fix))
    if before is None or after is None:
        return None
    return tuple(n for n, error in before.items() if n not in after or after[n] < error * MOSTLY_GONE)
