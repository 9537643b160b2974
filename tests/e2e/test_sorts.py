"""Divergences that need more than one call on a tensor to show: each is reduced, and none is lost on the way.

What makes the sort (the write, the view, the backward pass) must still be there in the minimal case where the
divergence needs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bisector.core.judge import family
from tests.e2e.helpers import minimized
from tests.e2e.more_sorts import MORE_SORTS
from tests.e2e.sorts import SORTS, Sort

LARGE = 1e-5  # absolute; of values around one, ten times what rounding leaves


@pytest.mark.slow
@pytest.mark.parametrize(
    "sort", [pytest.param(sort, id=name) for name, sort in (SORTS | MORE_SORTS).items()]
)
def test_a_subject_of_any_sort_is_reduced_and_still_diverges(sort: Sort, tmp_path: Path) -> None:
    result = minimized(sort.script, tmp_path)
    assert result["stopped_because"] is None
    large = [o["path"] for o in result["verdict"]["outputs"] if o["max_abs"] > LARGE]
    assert {family(path) for path in large} == set(sort.diverging)
    causes = [cause["decisions"] for cause in result["causes"] if cause["confirmed"]]
    assert causes
    assert all(any(sort.culprit in decision for decision in cause) for cause in causes)
    assert 0 < result["minimal"]["n_ops"] <= sort.most_ops
    repro = tmp_path / "run" / result["repro"]
    text = repro.read_text()
    assert [part for part in sort.keeps if part not in text] == []
    for arguments, status in (([], 1), (["--fixed"], 0)):
        done = subprocess.run(
            [sys.executable, "-I", str(repro), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
