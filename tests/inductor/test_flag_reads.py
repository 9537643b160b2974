"""Which flags a compile reads, with the real compiler in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bisector.core.model import Candidate
from bisector.core.protocol import DigestCode
from bisector.runner.worker_client import Worker
from tests.inductor.workers import ABOUT, answers, working

pytestmark = pytest.mark.usefixtures("warm_workers")

NEVER = {"inductor.epilogue_fusion", "functorch.view_replay_for_aliased_outputs"}  # templates, aliases
ALWAYS = {"inductor.max_fusion_size", "functorch.cse"}  # for two kernels, for a joint graph
ELSEWHERE = {"dynamo.specialize_float", "backends.mkldnn.enabled"}  # at the capture; in what is not watched
SCRIPT = """
import torch

def f(x, w):
    return (x @ w).exp().sum(0).cos()

torch.compile(f, dynamic=False)(torch.ones(64, 32, requires_grad=True), torch.ones(32, 8)){}
"""


@pytest.fixture
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    with working(tmp_path / "script.py", SCRIPT.format(request.param)) as started:
        yield started


def unread(worker: Worker) -> set[str]:
    names = tuple(sorted(NEVER | ALWAYS | ELSEWHERE))
    [found] = answers(worker, DigestCode(ABOUT, Candidate(), names))
    assert found.digest is not None
    return set(found.unread)


@pytest.mark.live
@pytest.mark.parametrize("worker", ["", ".sum().backward()"], indirect=True)
def test_flags_that_no_compile_reads_are_told_from_those_that_one_does(worker: Worker) -> None:
    assert unread(worker) == NEVER
