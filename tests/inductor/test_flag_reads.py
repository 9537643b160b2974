"""Which flags a compile reads, with the real compiler in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.runner.worker import Worker, WorkerOptions

NEVER = {"inductor.epilogue_fusion", "functorch.view_replay_for_aliased_outputs"}  # templates, aliases
ALWAYS = {"inductor.max_fusion_size", "functorch.cse"}  # for two kernels, for a joint graph
ELSEWHERE = {"dynamo.specialize_float", "backends.mkldnn.enabled"}  # in modules that are not watched
SCRIPT = """
import torch

def f(x, w):
    return (x @ w).exp().sum(0).cos()

torch.compile(f, dynamic=False)(torch.ones(64, 32, requires_grad=True), torch.ones(32, 8)){}
"""


@pytest.fixture
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(request.param))
    started = Worker(WorkerOptions(load={"target": str(script)}, first=False, log=str(tmp_path / "log")))
    started.wait_until_ready()
    yield started
    started.close()


def unread(worker: Worker) -> set[str]:
    request = {
        "job": "code", "call": 0, "case": WHOLE.to_json(), "train": None, "timeout_s": 120,
        "candidate": Candidate().to_json(), "names": sorted(NEVER | ALWAYS | ELSEWHERE),
    }  # fmt: skip
    replies: list[Any] = []
    worker.ask([request], 1, lambda index, reply: replies.append(reply))
    assert replies[0]["answer"]["code"] is not None
    return set(replies[0]["answer"]["unread"])


@pytest.mark.parametrize("worker", ["", ".sum().backward()"], indirect=True)
def test_flags_that_no_compile_reads_are_told_from_those_that_one_does(worker: Worker) -> None:
    assert unread(worker) == NEVER
