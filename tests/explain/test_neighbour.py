"""The nearest case that agrees, found with the real compiler; and how a difference is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Neighbour
from bisector.explain.reduction import nearest
from tests.explain.planted import studied

pytestmark = pytest.mark.usefixtures("warm_workers")

# float32 -> float16 -> float32: the generated code drops both casts.
ROUND_TRIP = "import torch\ntorch.compile(lambda x: x.half().float() * 3)(torch.rand(32))\n"


@pytest.mark.live
def test_of_what_agrees_the_smallest_change_of_the_code_is_named(tmp_path: Path) -> None:
    with studied(tmp_path, ROUND_TRIP, tolerance=1e-6) as (_, study):
        default = study.probe(Candidate())
        assert default.outcome is Outcome.FAIL
        cast = next(d.id for d in default.measurement.decisions if d.kind == "cast")
        repair = MinimalSet((cast,), Outcome.PASS, (Outcome.FAIL,))
        found = nearest(study, WHOLE, [repair], [])
    assert found is not None
    assert found.differs_by == f"disabling {cast}"
    assert 0 < found.changed < 12
    assert any("half" in line.lower() for line in found.diff if line.startswith("+"))


@pytest.mark.live
def test_where_nothing_agrees_there_is_no_neighbour(tmp_path: Path) -> None:
    script = "import torch\ntorch.compile(lambda x: x.sum(-1))(torch.rand(1, 1))\n"
    with studied(tmp_path, script) as (_, study):
        assert nearest(study, WHOLE, [], []) is None


def test_the_lines_of_context_and_the_head_of_a_difference_are_not_counted() -> None:
    lines = ("--- diverges", "+++ agrees", "@@ -1,3 +1,3 @@", " a", "-b", "+c", "+d")
    assert Neighbour("x", lines).changed == 3
