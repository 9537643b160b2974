"""What plain torch leaves out by its name is tried before it is printed as a way to apply a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.core.model import Candidate, Outcome
from bisector.core.search.minimal import MinimalSet
from bisector.session.fixes import from_repairs, in_plain_torch
from tests.session.planted import studied
from tests.session.test_formulas import SUMMED


@pytest.mark.live
def test_a_line_is_told_where_it_repairs_as_the_denial_does(tmp_path: Path) -> None:
    with studied(tmp_path, SUMMED, tolerance=1e-7) as (_, study):
        assert study.probe(Candidate()).outcome is Outcome.FAIL
        decision = "lower:aten.sum@sum_1"
        denied = study.denied(frozenset({decision}))
        assert denied.outcome is Outcome.PASS
        [fix] = from_repairs([(MinimalSet((decision,), Outcome.PASS, ()), denied)])
        [held] = in_plain_torch(study, [fix])
        assert fix.plain is not None and held.plain is not None
        assert study.probe(Candidate()).outcome is Outcome.FAIL, "a line must not outlive its question"
