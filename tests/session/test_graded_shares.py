"""What each of several casts carries of one divergence, measured on real compiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.session.culprit_search import decide, grade
from bisector.session.search_order import Suspects
from tests.session.planted import studied

# Each product lies between two bfloat16 numbers, 1 part of 16384 above the lower one. Eager rounds both down
# and compiled neither, so the two roundings, 2 ** -14 and four times that, add up in the sum.
SUM = """
import torch

def fn(a, b):
    small = a * a
    large = b * b
    return (small.float() + large.float(),)

x = torch.full((32,), 1 + 2 ** -7, dtype=torch.bfloat16)
torch.compile(fn)(x, 2 * x)
"""


@pytest.mark.live
def test_the_shares_of_two_casts_in_a_sum_add_up(tmp_path: Path) -> None:
    with studied(tmp_path, SUM, tolerance=1e-7) as (session, study):
        default = study.probe(Candidate())
        study = replace(study, signatures=default.signatures)
        found = decide(study, WHOLE, default, [], Suspects(kinds=frozenset({"cast"})))
        asked = session.counts["cached"]
        assert found.graded is not None
        assert [share.decision.rpartition("@")[2] for share in found.graded.shares] == ["large", "small"]
        assert [share.removed for share in found.graded.shares] == pytest.approx([0.8, 0.2], abs=0.01)
        assert [share.left for share in found.graded.shares] == pytest.approx([0.8, 0.2], abs=0.01)
        assert (found.graded.together, found.graded.adds_up) == (1.0, True)
        assert asked >= 4, "the shares of a pair were measured when the pair was proved"


@pytest.mark.live
def test_two_members_of_a_known_repair_cost_two_probes(tmp_path: Path) -> None:
    with studied(tmp_path, SUM, tolerance=1e-7) as (session, study):
        default = study.probe(Candidate())
        study = replace(study, signatures=default.signatures)
        casts = [d.id for d in default.measurement.decisions if d.kind == "cast"]
        session.counts.clear()
        found = grade(study, WHOLE, default, casts, repairs=True)
        assert found is not None
        assert [share.removed for share in found.shares] == pytest.approx([0.8, 0.2], abs=0.01)
        assert (found.together, found.adds_up) == (1.0, True)
        assert session.counts["run"] == 2
