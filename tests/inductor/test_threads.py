"""A thread that runs tensor code leaves nothing behind that a fork could take along."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from bisector.inductor import threads
from bisector.inductor.threads import run_in_thread

PARALLEL = """
import os, torch
from bisector.inductor.threads import run_in_thread

torch.set_num_threads(1)
left = []

def work():
    torch.set_num_threads(4)
    (torch.randn(300, 300) @ torch.randn(300, 300)).exp().sum()
    left.append(len(os.listdir("/proc/self/task")))

for _ in range(20):
    before = len(os.listdir("/proc/self/task"))
    assert run_in_thread(work, "work")
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
        assert run_in_thread(lambda: threading.Thread(target=stop.wait, daemon=True).start(), "work")
        assert time.monotonic() - started < 10
    finally:
        stop.set()


def test_work_that_does_not_end_in_time_is_told() -> None:
    stop = threading.Event()

    def work() -> None:
        stop.wait()

    try:
        assert not run_in_thread(work, "work", timeout_s=0.1)
    finally:
        stop.set()
