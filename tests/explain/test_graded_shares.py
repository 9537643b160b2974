"""What each of several casts carries of one divergence, measured on real compiles (the shares of all of them:
tests/replay/test_planted.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.explain.culprit_search import grade
from tests.explain.planted import studied
from tests.scripts.planted import TWO_CASTS

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.mark.live
def test_two_members_of_a_known_repair_cost_two_probes(tmp_path: Path) -> None:
    with studied(tmp_path, TWO_CASTS, tolerance=1e-7) as (session, study):
        default = study.probe(Candidate())
        study = replace(study, signatures=default.signatures)
        casts = [d.id for d in default.measurement.decisions if d.kind == "cast"]
        session.counts.clear()
        found = grade(study, WHOLE, default, casts, repairs=True)
        assert found is not None
        assert [share.removed for share in found.shares] == pytest.approx([0.8, 0.2], abs=0.01)
        assert (found.together, found.adds_up) == (1.0, True)
        assert session.counts["run"] == 2
