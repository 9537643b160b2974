"""A worker that serves all jobs itself gives the answers of one that forks, however many jobs came before."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.case import WHOLE
from bisector.core.messages import LoadOptions, WorkerOptions
from bisector.core.model import Candidate, Measurement
from bisector.core.protocol import (
    About,
    Failed,
    Request,
    RunProbe,
    RunVerdict,
    ShowSource,
)
from bisector.core.recorded import Recorded
from bisector.runner.journal import Journal
from bisector.runner.lab import Lab
from bisector.runner.worker_client import Worker
from tests.inductor.workers import answers

pytest.importorskip("torch")

SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU())

def rounded(x, y):
    z = torch.nn.functional.gelu(x.half() * 1.7) + torch.rand_like(y)
    return torch.softmax(z.float() * y, -1), z.sum(-1)

torch.compile(rounded)(torch.randn(8, 16), torch.randn(8, 16))
torch.compile(model)(torch.randn(4, 16)).sum().backward()
f = torch.compile(lambda x: (x * 2 + 1).sum(-1), dynamic=True)
f(torch.randn(6, 12))
"""
FIRST, TRAINED, DYNAMIC = range(3)
SMALL = "import torch\ntorch.compile(lambda x: (x * 2 + 1).sum(-1))(torch.ones(6, 12))\n"


DEFAULT = Candidate()


def about(call: int) -> About:
    return About(call, WHOLE, None, {})


def probe(call: int, candidate: Candidate = DEFAULT, trial: int = 0) -> RunProbe:
    return RunProbe(about(call), candidate, trial)


def flags(**named: Any) -> Candidate:
    return Candidate.with_flags({f"inductor.{k.replace('__', '.')}": v for k, v in named.items()})


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unforked")
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


def started(script: Path, forks: bool | None) -> tuple[Worker, Recorded]:
    load = LoadOptions(str(script), seed=3)
    worker = Worker(WorkerOptions(load, first=False, log=str(script.parent / "log"), forks=forks))
    return worker, worker.wait_until_ready()


@pytest.fixture(scope="module")
def forking_and_hello(script: Path) -> Iterator[tuple[Worker, Recorded]]:
    worker, hello = started(script, None)
    yield worker, hello
    worker.close()


@pytest.fixture
def forking(forking_and_hello: tuple[Worker, Recorded]) -> Worker:
    return forking_and_hello[0]


@pytest.fixture(scope="module")
def unforked_and_hello(script: Path) -> Iterator[tuple[Worker, Recorded]]:
    worker, hello = started(script, False)
    yield worker, hello
    worker.close()


@pytest.fixture
def unforked(unforked_and_hello: tuple[Worker, Recorded]) -> Worker:
    return unforked_and_hello[0]


def said(worker: Worker, *requests: Request[Any]) -> list[Any]:
    """The answers in order, as JSON and without their times."""
    return [_timeless(wire.dump(answer)) for answer in answers(worker, *requests)]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k != "seconds"}
    return [_timeless(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.live
def test_a_worker_without_cuda_forks_and_one_that_is_told_not_to_has_its_answers(script: Path) -> None:
    small = script.with_name("both.py")
    small.write_text(SMALL)
    workers = []
    try:
        for forked in (None, False):
            workers.append(started(small, forked))
        (forking, forks), (unforked, stays) = workers
        requests: list[Request[Any]] = [
            probe(FIRST),
            probe(FIRST, flags(cpp__simdlen=1)),
            RunVerdict(about(FIRST)),
            ShowSource(about(FIRST), Candidate()),
            probe(FIRST),
        ]
        mine = said(unforked, *requests)
        # Beside others; asked last, since a probe after the verdict is told its errors against the reference.
        last = requests.index(RunVerdict(about(FIRST)))
        *theirs, verdict = said(forking, *requests[:last], *requests[last + 1 :], requests[last])
        theirs.insert(last, verdict)
    finally:
        for worker, _ in workers:
            worker.close()
    for position, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        for part in {*one, *other}:
            assert one.get(part) == other.get(part), f"answer {position}, {part}"
    assert mine[0] == mine[-1] and mine[0]["outputs"] and mine[0]["code"] != mine[1]["code"]
    assert not forks.one_at_a_time
    assert stays.one_at_a_time
    assert forks.calls == stays.calls


def lab_of(script: Path, tmp_path: Path) -> Lab:
    options = WorkerOptions(LoadOptions(str(script), seed=3), first=False, forks=False)
    return Lab(options, Journal(tmp_path / "journal"), 2, 60.0, lambda *told: None)


@pytest.mark.live
def test_a_job_that_takes_too_long_is_answered_and_the_next_one_finds_a_fresh_worker(
    script: Path, tmp_path: Path
) -> None:
    small = script.with_name("small.py")
    small.write_text(SMALL)
    lab = lab_of(small, tmp_path)
    try:
        lab.hello()
        lab.timeout_s = 0.001
        assert lab.ask(probe(0)) == Failed("timeout after 0.001 s")
        lab.timeout_s = 60.0
        after = lab.ask(probe(0, trial=1))
        assert isinstance(after, Measurement) and after.outputs
        assert lab.journal.losses == {}
    finally:
        lab.close()
        lab.journal.close()


def test_generated_modules_and_the_constants_in_them_do_not_outlive_their_job(
    tmp_path: Path, undisturbed: None, compiler: None
) -> None:
    import torch
    from torch._inductor.codecache import PyCodeCache

    from bisector.inductor import execute
    from bisector.inductor.capture import load
    from bisector.inductor.serving.pristine import Pristine

    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nlayer = torch.nn.Linear(64, 64)\nwith torch.no_grad():\n"
        "    torch.compile(layer)(torch.ones(2, 64))\n"
    )
    loaded = load.load(load.LoadOptions(str(script), threads=1))
    pristine, call = Pristine(loaded), loaded.recorder.calls[0]
    frozen = Candidate.with_flags({"inductor.freezing": True})
    for _ in range(2):
        pristine.restore()
        subject = execute.prepare(call, WHOLE, None)
        with execute.active(execute.control_for(frozen), threads=1), torch.no_grad():
            execute.compile_subject(subject, frozen)
        made = list(PyCodeCache.modules)
        assert made
    pristine.restore()
    assert PyCodeCache.modules == []
    assert not {module.__name__ for module in made} & sys.modules.keys()


def test_a_thread_of_a_job_can_keep_the_manager_of_its_cuda_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch 2.11, whose module gives it to the thread that imports it and to no other."""
    from torch._inductor import cudagraph_trees

    from bisector.inductor.serving import pristine

    monkeypatch.delattr(cudagraph_trees, "_initialize_tls")
    found: list[Any] = []

    def run() -> None:
        pristine._give_graphs_manager()
        found.append(cudagraph_trees.get_obj(cudagraph_trees.local, "tree_manager_containers"))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [{}]
