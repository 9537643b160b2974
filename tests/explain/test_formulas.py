"""Where the plain baseline diverges already, the formula of a lowering is a cause like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.decision import DecisionId
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.explain.culprit_search import decide
from tests.core.helpers import as_sets
from tests.explain.planted import studied

pytestmark = pytest.mark.usefixtures("warm_workers")

# Eager adds float32 in a cascade, Inductor one after the other (or in lanes): the lowering's own order. The
# product is rounded once and alike on both sides.
SUMMED = """
import torch

def fn(x):
    return ((x * 3).sum(1),)

torch.manual_seed(0)
torch.compile(fn)(torch.rand(4, 4000) + 1)
"""


@pytest.mark.live
def test_a_lowering_whose_plain_formula_diverges_is_the_cause_and_the_repair(tmp_path: Path) -> None:
    with studied(tmp_path, SUMMED, tolerance=1e-7) as (_, study):
        default = study.probe(Candidate())
        study = replace(study, signatures=default.signatures)
        plain = study.enabled(frozenset(), WHOLE, [])
        assert plain.outcome is Outcome.FAIL, "the plain baseline would say nothing here"
        found = decide(study, WHOLE, default, [])
        blamed = DecisionId("lower:aten.sum@sum_1")
        assert found.also_denied == (blamed,)
        assert frozenset({blamed}) in as_sets(found.sets.causes)
        assert all(blamed in repair.members for repair in found.sets.repairs)
        assert found.sets.repairs
        assert found.places == ()
        assert "torch/_inductor/lowering.py" in study.formulas([blamed])[blamed]
