"""The code that a flag makes, without a run: it changes where a probe's code changes, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bisector.core.model import Base, Candidate
from bisector.core.protocol import DigestCode, RunProbe
from bisector.runner.worker_client import Worker
from tests.inductor.workers import ABOUT, answers, working

pytestmark = pytest.mark.usefixtures("compiler", "warm_workers")

INFERENCE = """
import torch
torch.manual_seed(0)

def f(x, w):
    return torch.softmax(torch.tanh(x @ w).half().float() * 3, -1)

torch.compile(f, dynamic=False)(torch.randn(33, 70), torch.randn(70, 5))
"""
TRAINING = """
import torch
torch.manual_seed(0)

def f(x):
    return torch.sigmoid(x.to(torch.bfloat16) * 2).float().exp()

torch.compile(f, dynamic=False)(torch.randn(32, 48, requires_grad=True)).sum().backward()
"""
FLAGS: dict[str, Any] = {
    "inductor.cpp.simdlen": 1,
    "inductor.emulate_precision_casts": True,
    "inductor.max_fusion_size": 1,
    "inductor.pattern_matcher": False,
    "inductor.layout_optimization": False,
    "inductor.online_softmax": False,
    "inductor.cpp.enable_loop_tail_vec": False,
    "functorch.cse": False,
    "inductor.allow_buffer_reuse": False,
}
CHANGES = ("inductor.cpp.simdlen", "inductor.emulate_precision_casts")


@pytest.fixture(scope="module", params=[INFERENCE, TRAINING], ids=["inference", "training"])
def worker(
    request: pytest.FixtureRequest, compiler: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("codes") / "script.py", request.param) as started:
        yield started


def codes(worker: Worker, candidates: list[Candidate]) -> list[str | None]:
    return [found.digest for found in answers(worker, *(DigestCode(ABOUT, c) for c in candidates))]


def codes_of_probes(worker: Worker, candidates: list[Candidate]) -> list[str]:
    return [found.code for found in answers(worker, *(RunProbe(ABOUT, c) for c in candidates))]


@pytest.mark.live
def test_a_flag_changes_the_code_where_a_probe_says_so(worker: Worker) -> None:
    candidates = [Candidate(), *(Candidate.with_flags({name: value}) for name, value in FLAGS.items())]
    told, *looked = codes(worker, candidates)
    compiled, *probed = codes_of_probes(worker, candidates)
    changed = {name for name, code in zip(FLAGS, looked, strict=True) if code != told}
    assert changed == {name for name, code in zip(FLAGS, probed, strict=True) if code != compiled}
    assert set(CHANGES) <= changed < FLAGS.keys()


@pytest.mark.live
def test_a_flag_that_this_torch_lacks_has_no_code(worker: Worker) -> None:
    assert codes(worker, [Candidate.with_flags({"inductor.no_such": 1})]) == [None]


def test_a_program_that_cannot_be_compiled_has_no_code(worker: Worker) -> None:
    broken = Candidate.with_flags({"inductor.cpu_backend": "no such"})
    assert codes(worker, [broken]) == [None]
    [found] = answers(worker, DigestCode(ABOUT, broken, ("inductor.epilogue_fusion",)))
    assert not found.unread, "a compile that ends early has not read what it would have"


def test_a_hook_that_was_found_not_to_work_is_off_where_that_is_asked(worker: Worker) -> None:
    """The plain baseline has no vector code but where its hook is off."""
    without = replace(ABOUT, hooks_off={"vec": "denying it changed no code"})
    on, off = answers(worker, *(RunProbe(about, Candidate(Base.PLAIN)) for about in (ABOUT, without)))
    assert on.code != off.code
