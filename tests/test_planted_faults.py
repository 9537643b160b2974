"""The faults that `just planted` plants are about the source as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.planted.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_place_in_the_source_and_tests_that_may_see_it(fault: Fault) -> None:
    assert (ROOT / "bisector" / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert all((ROOT / name).exists() for name in fault.likely)
