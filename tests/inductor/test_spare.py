"""The worker that confirms is forked by the first one, once that has imported torch; and what else can be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisector import processes
from bisector.core.messages import LoadOptions, WorkerOptions
from bisector.core.model import Candidate
from bisector.core.protocol import RunProbe
from bisector.runner.worker_client import Spare, Worker
from tests.inductor.workers import ABOUT, answers

pytest.importorskip("torch")

SCRIPT = """import os, torch
print('ran in', os.getpid())
torch.compile(lambda x: x.sin() * 2)(torch.ones(8))
"""


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "case.py").write_text(SCRIPT)
    options = WorkerOptions(
        LoadOptions(str(tmp_path / "case.py")), first=False, log=str(tmp_path / "worker.log")
    )
    worker = Worker(options)
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.close()


def another(first: Worker, **options: Any) -> Worker:
    wanted = replace(first.options, **options)
    return Worker(wanted, first.take_spare(wanted))


def parent_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def is_gone(pid: int) -> bool:
    """A process that has ended may be there until its parent looks."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.live
def test_a_second_worker_is_forked_by_the_first_and_runs_the_script_itself(first: Worker) -> None:
    second = another(first)
    assert isinstance(second.process, Spare) and second.process.pid is not None
    assert parent_of(second.process.pid) == first.process.pid
    hello = second.wait_until_ready()
    assert [call.nodes for call in hello.calls] == [2]
    ran = [line for line in Path(first.options.log).read_text().splitlines() if line.startswith("ran in")]
    assert ran == [f"ran in {first.process.pid}", f"ran in {second.process.pid}"]
    asked = RunProbe(ABOUT, Candidate(), 0, 1)
    of_second, of_first = answers(second, asked)[0], answers(first, asked)[0]
    assert of_second.error is None
    assert (of_second.code, of_second.outputs) == (of_first.code, of_first.outputs)
    assert first.take_spare(first.options) is None, "there is one"
    pid = second.process.pid
    second.close()
    assert is_gone(pid) and answers(first, asked)[0].error is None


@pytest.mark.live
def test_a_spare_is_no_worker_with_what_torch_would_have_had_to_know_before(first: Worker) -> None:
    assert first.take_spare(replace(first.options, environment={"OMP_NUM_THREADS": "1"})) is None
    assert first.take_spare(replace(first.options, folder="/")) is None
    spare = first.take_spare(first.options)
    assert spare is not None
    spare.end()


@pytest.mark.live
def test_where_the_spare_is_gone_a_process_is_started(first: Worker) -> None:
    [pid] = [int(p.name) for p in Path("/proc").glob("[0-9]*") if _is_child(int(p.name), first.process.pid)]
    os.kill(pid, signal.SIGKILL)
    assert is_gone(pid)
    second = another(first)
    try:
        assert isinstance(second.process, processes.Started)
        assert len(second.wait_until_ready().calls) == 1
    finally:
        second.close()


@pytest.mark.live
def test_a_second_worker_that_dies_in_the_script_is_started_once_more_as_a_process(first: Worker) -> None:
    """What a process of its own leaves behind tells how it ended."""
    case = Path(first.options.load.target)
    case.write_text(f"import os\nif os.getppid() == {first.process.pid}: os.kill(os.getpid(), 9)\n{SCRIPT}")
    second = another(first)
    try:
        assert isinstance(second.process, Spare)
        assert len(second.wait_until_ready().calls) == 1
        assert isinstance(second.process, processes.Started)
    finally:
        second.close()


@pytest.mark.live
def test_a_spare_ends_with_the_worker_that_forked_it(first: Worker) -> None:
    second = another(first)
    assert isinstance(second.process, Spare) and second.process.pid is not None
    second.wait_until_ready()
    assert first.process.pid is not None
    os.kill(first.process.pid, signal.SIGKILL)
    assert is_gone(second.process.pid)
    second.close()


def _is_child(pid: int, parent: int | None) -> bool:
    try:
        return parent_of(pid) == parent
    except FileNotFoundError:
        return False
