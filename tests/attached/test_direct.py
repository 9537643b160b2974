"""`bisector.check` and `bisector.minimize` of functions that a program holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import bisector
from bisector.core.outcome import Outcome
from bisector.core.verdict import VerdictClass
from bisector.errors import BadOption, BadTarget
from tests.attached.helpers import round_trip

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.mark.live
def test_a_function_that_agrees_passes_and_one_that_diverges_fails(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    agrees = bisector.check(torch.compile(model), (torch.rand(4, 8),), out=tmp_path)
    assert (agrees.outcome, agrees.verdict) == (Outcome.PASS, VerdictClass.AGREES)
    diverges = bisector.check(round_trip, (), {"x": torch.rand(16)}, out=tmp_path)
    assert (diverges.outcome, diverges.verdict) == (Outcome.FAIL, VerdictClass.ELIDED_ROUNDING)
    assert "is not executed" in diverges.reason
    assert (diverges.run / "result.json").is_file()


@pytest.mark.live  # two runs of check
def test_options_and_tolerances_are_those_of_the_comparison(tmp_path: Path) -> None:
    x = (torch.rand(16),)
    emulated = bisector.check(round_trip, x, options={"emulate_precision_casts": True}, out=tmp_path)
    loose = bisector.check(round_trip, x, rtol=0.1, atol=0.1, out=tmp_path)
    assert (emulated.outcome, loose.outcome) == (Outcome.PASS, Outcome.PASS)


@pytest.mark.live  # of one that diverges: test_plugin, by the same call
def test_minimize_of_what_agrees_is_that_verdict_and_no_repro(tmp_path: Path) -> None:
    found = bisector.minimize(torch.relu, (torch.rand(8),), out=tmp_path, budget=60)
    assert (found.verdict, found.repro) == (VerdictClass.AGREES, None)
    assert found.in_a_line.startswith("agrees")


def test_what_cannot_be_asked_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match="nothing in it that"):
        bisector.check(lambda: 3, out=tmp_path)
    with pytest.raises(BadOption, match="give both"):
        bisector.check(round_trip, (torch.rand(4),), rtol=0.1, out=tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'bisect'"):
        _ = bisector.bisect
