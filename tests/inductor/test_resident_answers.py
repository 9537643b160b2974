"""A worker that serves all jobs itself gives the answers of one that forks, however many jobs came before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.model import Base, Candidate
from bisector.runner.journal import Journal
from bisector.runner.lab import LOST, Lab
from bisector.runner.worker import Worker, WorkerOptions

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


def probe(call: int, candidate: Candidate = DEFAULT, **more: Any) -> dict[str, Any]:
    named = {"case": WHOLE.to_json(), "candidate": candidate.to_json(), "train": None}
    return {"job": "probe", "call": call, **named, **more}


def flags(**named: Any) -> Candidate:
    return Candidate.with_flags({f"inductor.{k.replace('__', '.')}": v for k, v in named.items()})


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("resident")
    (folder / "script.py").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
        yield folder / "script.py"


def started(script: Path, forks: bool | None) -> Worker:
    load = {"target": str(script), "seed": 3}
    worker = Worker(WorkerOptions(load, first=False, log=str(script.parent / "log"), forks=forks))
    worker.wait_until_ready()
    return worker


@pytest.fixture(scope="module")
def forking(script: Path) -> Iterator[Worker]:
    worker = started(script, None)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def resident(script: Path) -> Iterator[Worker]:
    worker = started(script, False)
    yield worker
    worker.close()


def answers(worker: Worker, requests: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The answers in order, without their times."""
    found: dict[int, Any] = {}
    worker.ask([{"timeout_s": 120.0, **r} for r in requests], 2, lambda i, reply: found.update({i: reply}))
    return [_timeless({k: v for k, v in found[i].items() if k != "id"}) for i in range(len(requests))]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k != "seconds"}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def test_a_worker_without_cuda_forks_unless_it_is_told_not_to(forking: Worker, resident: Worker) -> None:
    assert not forking.hello["one_at_a_time"]
    assert resident.hello["one_at_a_time"]
    assert forking.hello["calls"] == resident.hello["calls"]


def test_every_kind_of_job_has_the_answer_of_a_fork(forking: Worker, resident: Worker) -> None:
    listed = answers(forking, [probe(FIRST)])[0]["answer"]["decisions"]
    members = [d["id"] for d in listed]
    decomps = [m for m in members if m.startswith(("decomp:", "lower:"))]
    case = {"case": WHOLE.to_json(), "train": None}
    requests = [
        probe(FIRST, Candidate.deny(decomps)),
        probe(FIRST, flags(cpp__simdlen=1, emulate_precision_casts=True)),
        probe(TRAINED),
        probe(FIRST, Candidate(base=Base.PLAIN)),
        {"job": "selftest"},
        probe(FIRST, hooks_off={"inline": "for a test"}),
        {"job": "flags", "call": FIRST, "names": ["inductor.cpp.simdlen", "inductor.freezing"]},
        {"job": "info", "call": FIRST, **case},
        {"job": "verdict", "call": TRAINED, **case},
        {"job": "source", "call": FIRST, "candidate": Candidate().to_json(), **case},
        {"job": "warm", "call": DYNAMIC, **case},
        probe(FIRST, Candidate(base=Base.PLAIN, members=frozenset(members[::2]))),
        probe(TRAINED, Candidate(base=Base.PLAIN)),
        probe(DYNAMIC),
        probe(FIRST),
    ]
    assert len(decomps) > 2
    for request, mine, theirs in zip(
        requests, answers(resident, requests), answers(forking, requests), strict=True
    ):
        assert mine == theirs, request
        assert "answer" in mine


SLOW = [pytest.param(call, marks=pytest.mark.slow) for call in (TRAINED, DYNAMIC)]


@pytest.mark.parametrize("call", [FIRST, *SLOW])
def test_twenty_probes_in_one_process_leave_nothing_behind(resident: Worker, call: int) -> None:
    first = answers(resident, [probe(call)])[0]["answer"]
    members = [d["id"] for d in first["decisions"]]
    between = [
        Candidate.deny(members[i % len(members) :: 3]) if i % 2 else flags(unroll_reductions_threshold=1)
        for i in range(5)
    ]
    mixed = [probe(call, c) for c in between] + [probe(call)] * 14
    later = answers(resident, mixed)[len(between) :]
    assert [a["answer"] for a in later] == [first] * 14
    assert first["outputs"] and first["code"]


def lab_of(script: Path, tmp_path: Path) -> Lab:
    options = WorkerOptions({"target": str(script), "seed": 3}, first=False, forks=False)
    return Lab(options, Journal(tmp_path / "journal"), 2, 60.0, lambda *told: None)


def test_a_job_that_takes_too_long_is_answered_and_the_next_one_finds_a_fresh_worker(
    script: Path, tmp_path: Path
) -> None:
    small = script.with_name("small.py")
    small.write_text(SMALL)
    lab = lab_of(small, tmp_path)
    try:
        late, after = lab.ask_all([{**probe(0), "timeout_s": 0.001}, probe(0, trial=1)])
        assert late == {"error": "timeout after 0.001 s"}
        assert after["outputs"]
        assert lab.journal.losses == {}
    finally:
        lab.close()
        lab.journal.close()


def test_a_job_that_kills_the_worker_is_blamed_and_the_others_are_answered(
    script: Path, tmp_path: Path
) -> None:
    killer = script.with_name("killer.py")
    killer.write_text(
        SMALL + "\nimport os\ndef crash(gm, inputs):\n    os.abort()\n"
        "torch.compile(lambda x: x + 1, backend=crash)(torch.ones(3))\n"
    )
    lab = lab_of(killer, tmp_path)
    try:
        crashed, fine = lab.ask_all([probe(1), probe(0)])
        assert crashed == LOST
        assert fine["outputs"]
    finally:
        lab.close()
        lab.journal.close()


