"""Timing a flag: both programs run in turn, each under its own flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.core.protocol import Failed, Ratios, TimeSlowdown
from bisector.inductor import execute
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.flags.fix_trials import LEAST_ROUNDS, MOST_ROUNDS, Timed, program
from bisector.runner.worker_client import Worker
from tests.inductor.workers import ABOUT, answers, working

pytestmark = pytest.mark.usefixtures("compiler", "warm_workers")

SCRIPT = """
import torch
torch.manual_seed(0)

def f(x, w):
    return torch.tanh(x @ w).exp()

x = torch.randn(64, 32, requires_grad=True)
torch.compile(f, dynamic=False)(x, torch.randn(32, 8)).sum().backward()
"""


@pytest.fixture(scope="module")
def worker(compiler: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("timing") / "script.py", SCRIPT) as started:
        yield started


def timed(worker: Worker, candidate: Candidate, train: bool, seconds: float = 0.0) -> Ratios | Failed:
    [found] = answers(worker, TimeSlowdown(replace(ABOUT, train=train), candidate, seconds))
    assert isinstance(found, (Ratios, Failed))
    return found


def seconds_of_a_run(call: Call, train: bool) -> float:
    """The least of some blocks, without the first, which has what the compile left to do."""
    made = program(execute.prepare(call, WHOLE, train), WHOLE, Candidate())
    default = Timed(made, made.inputs())
    default.block(1)
    return min(default.block(100) for _ in range(LEAST_ROUNDS)) / 100


@pytest.mark.live
def test_the_rounds_are_as_many_as_the_time_allows(worker: Worker) -> None:
    scalar = Candidate.with_flags({"inductor.cpp.simdlen": 1})
    few = timed(worker, scalar, train=False)
    assert isinstance(few, Ratios)
    assert len(few.ratios) == LEAST_ROUNDS
    assert all(ratio > 0 for ratio in few.ratios)
    many = timed(worker, scalar, train=True, seconds=60)
    assert isinstance(many, Ratios)
    assert len(many.ratios) == MOST_ROUNDS


@pytest.mark.live
@pytest.mark.usefixtures("undisturbed")
def test_a_backward_pass_is_timed_with_the_forward_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    [call] = load(LoadOptions(str(tmp_path / "script.py"))).recorder.calls
    forward, both = (seconds_of_a_run(call, train) for train in (False, True))
    assert 0 < forward < both < 1


@pytest.mark.live
def test_a_flag_that_this_torch_lacks_is_not_timed(worker: Worker) -> None:
    refused = timed(worker, Candidate.with_flags({"inductor.no_such": 1}), train=False)
    assert isinstance(refused, Failed)
    assert refused.reason == "this torch has no flag inductor.no_such"
