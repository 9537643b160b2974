"""What plain torch leaves out by its name is tried before it is printed as a way to apply a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.core.decision import DecisionId
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MinimalSet
from bisector.explain.fixes import from_repairs, in_plain_torch
from tests.explain.planted import studied
from tests.explain.test_formulas import SUMMED

pytestmark = pytest.mark.usefixtures("warm_workers")

# Autograd takes the op apart before the table of decompositions is asked; the line takes that away too.
BILINEAR = """
import torch
import torch.nn.functional as F

def fn(a):
    return (a ** 2).flip(-1), F.interpolate(a[None, None], scale_factor=1.7, mode="bilinear")[0, 0]

torch.manual_seed(214)
a = torch.randn(64, 1, dtype=torch.float16, requires_grad=True)
squares, larger = torch.compile(fn)(a)
(squares.float().sum() + larger.float().sum()).backward()
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("script", "tolerance", "decision", "told"),
    [
        pytest.param(SUMMED, 1e-7, "lower:aten.sum@sum_1", Outcome.PASS, id="a lowering"),
        pytest.param(
            BILINEAR, 1e-4, "decomp:aten.upsample_bilinear2d@interpolate", Outcome.PASS,
            id="a decomposition that the table does not hold",
        ),
    ],
)  # fmt: skip
def test_a_line_is_told_only_where_it_repairs_as_the_denial_does(
    tmp_path: Path, script: str, tolerance: float, decision: str, told: Outcome
) -> None:
    member = DecisionId(decision)
    with studied(tmp_path, script, tolerance=tolerance) as (_, study):
        assert study.probe(Candidate()).outcome is Outcome.FAIL
        denied = study.denied(frozenset({member}))
        assert denied.outcome is Outcome.PASS
        [fix] = from_repairs([(MinimalSet((member,), Outcome.PASS, ()), denied)])
        [held] = in_plain_torch(study, [fix])
        assert fix.plain is not None
        assert (held.plain is not None) is (told is Outcome.PASS)
        assert study.probe(Candidate()).outcome is Outcome.FAIL, "a line must not outlive its question"
