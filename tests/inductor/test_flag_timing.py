"""Timing a flag: both programs run in turn, each under its own flags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.inductor.flags.timing import LEAST_ROUNDS, MOST_ROUNDS
from bisector.runner.worker import Worker, WorkerOptions

pytestmark = pytest.mark.usefixtures("compiler")

SCRIPT = """
import torch
torch.manual_seed(0)

def f(x, w):
    return torch.tanh(x @ w).exp()

x = torch.randn(64, 32, requires_grad=True)
torch.compile(f, dynamic=False)(x, torch.randn(32, 8)).sum().backward()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    started = Worker(WorkerOptions(load={"target": str(script)}, first=False, log=str(tmp_path / "log")))
    started.wait_until_ready()
    yield started
    started.close()


def timed(worker: Worker, candidate: Candidate, train: bool, seconds: float = 0.0) -> dict[str, Any]:
    what = {"job": "slowdown", "call": 0, "case": WHOLE.to_json(), "train": train, "timeout_s": 120}
    replies: list[Any] = []
    request = {**what, "candidate": candidate.to_json(), "seconds": seconds}
    worker.ask([request], 1, lambda index, reply: replies.append(reply))
    answer: dict[str, Any] = replies[0]["answer"]
    return answer


def test_the_rounds_are_as_many_as_the_time_allows(worker: Worker) -> None:
    scalar = Candidate.with_flags({"inductor.cpp.simdlen": 1})
    few = timed(worker, scalar, train=False)
    assert len(few["ratios"]) == LEAST_ROUNDS
    assert all(ratio > 0 for ratio in few["ratios"])
    assert 0 < few["default_s"] < 1
    many = timed(worker, scalar, train=False, seconds=60)
    assert len(many["ratios"]) == MOST_ROUNDS


def test_a_backward_pass_is_timed_with_the_forward_one(worker: Worker) -> None:
    flags = Candidate.with_flags({"functorch.cse": False})
    forward, both = (timed(worker, flags, train)["default_s"] for train in (False, True))
    assert both > forward


def test_a_flag_that_this_torch_lacks_is_not_timed(worker: Worker) -> None:
    assert "no_such" in timed(worker, Candidate.with_flags({"inductor.no_such": 1}), train=False)["problem"]
