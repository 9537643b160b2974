"""A thread that runs tensor code leaves nothing behind that a fork could take along."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from bisector.inductor import threads
from bisector.inductor.threads import Ran, run_in_thread

PARALLEL = """
import os, torch
from bisector.inductor.threads import Ran, run_in_thread

torch.set_num_threads(1)
left = []

def work():
    torch.set_num_threads(4)
    (torch.randn(300, 300) @ torch.randn(300, 300)).exp().sum()
    left.append(len(os.listdir("/proc/self/task")))

for _ in range(20):
    before = len(os.listdir("/proc/self/task"))
    assert run_in_thread(work, "work") is Ran.ENDED
    assert left[-1] > before + 1, "the work started no helpers"
    assert len(os.listdir("/proc/self/task")) == before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not list the threads of a process")
def test_the_helpers_of_the_work_are_gone_when_it_returns() -> None:
    ran = subprocess.run([sys.executable, "-c", PARALLEL], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_thread_that_the_work_leaves_running_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)
    stop = threading.Event()
    started = time.monotonic()
    try:
        leaving = threading.Thread(target=stop.wait, daemon=True)
        assert run_in_thread(leaving.start, "work") is Ran.ENDED
        assert time.monotonic() - started < 10
    finally:
        stop.set()


def test_work_that_does_not_end_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "STOPS_WITHIN_S", 0.3)
    stop = threading.Event()

    def work() -> None:
        stop.wait()  # not Python code, which alone can be stopped

    try:
        assert run_in_thread(work, "work", timeout_s=0.1) is Ran.RUNNING
    finally:
        stop.set()


def test_work_in_python_is_stopped_at_its_time_limit_even_if_it_catches_that_once() -> None:
    told: list[str] = []

    def work() -> None:
        try:
            while True:
                pass
        except BaseException as error:  # noqa: BLE001 - a script may do so
            told.append(type(error).__name__)
        while True:
            pass

    assert run_in_thread(work, "work", timeout_s=0.1) is Ran.STOPPED
    assert told == ["TimeIsUp"]


def test_somebody_else_is_looked_after_while_the_work_runs() -> None:
    looked: list[float] = []
    assert run_in_thread(lambda: time.sleep(0.5), "work", None, lambda: looked.append(0.0)) is Ran.ENDED
    assert len(looked) >= 2


CHILD = """
import os, torch
from bisector.inductor.serving import worker

worker._imported()
plain, called = torch.set_num_threads, []
torch.set_num_threads = lambda number: (called.append(number), plain(number))
pid = os.fork()
if pid == 0:
    os._exit(0 if called == [1] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert called == []
"""


def test_a_forked_child_has_its_pool_of_threads_before_anything_runs_in_it() -> None:
    ran = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
