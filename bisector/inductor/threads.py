"""Threads: running tensor code in one, in a process that forks; a flag that each has for itself."""

from __future__ import annotations

import ctypes
import enum
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# OpenMP's helpers leave within a few milliseconds of their thread; a script's own threads may stay for ever.
PATIENCE_S = 1.0
TASKS = "/proc/self/task"
STOPS_WITHIN_S = 5.0  # what is asked to stop may have its own exits to run
STEP_S = 0.2


class Ran(enum.Enum):
    """How the work in a thread came to its end, or that it did not."""

    ENDED = "ended"
    STOPPED = "stopped at its time limit"
    RUNNING = "still running after its time limit"  # nothing may be forked any more


class TimeIsUp(BaseException):
    """Raised in a thread that has had its time."""


class ThreadFlag(threading.local):
    """A flag that each thread has for itself, set within the block that `set` begins. Dynamo can trace code
    that looks at it."""

    is_set = False

    @contextmanager
    def set(self) -> Iterator[None]:
        before, self.is_set = self.is_set, True
        try:
            yield
        finally:
            self.is_set = before


def run_in_thread(
    work: Callable[[], None],
    name: str,
    timeout_s: float | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Ran:
    """Run `work` in a thread of its own. At its time limit TimeIsUp is raised in it, which ends Python code
    that does not catch everything; C code that does not come back cannot be ended so.

    meanwhile: called a few times a second until the work ends.

    OpenMP ends a thread's helpers after the thread, without anybody waiting for them. A fork meanwhile takes
    along the locks they hold (those of MKL's buffers, for one) with nobody to release them, and the child
    hangs in its first matrix product. So this returns when they are gone, as far as the system tells.
    """
    before = _tasks()
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    ran = Ran.ENDED if _ended(thread, timeout_s, meanwhile) else _stop(thread)
    if ran is Ran.RUNNING:
        return ran
    patience = time.monotonic() + PATIENCE_S
    while _tasks() > before and time.monotonic() < patience:
        time.sleep(0.001)
    return ran


def _ended(thread: threading.Thread, timeout_s: float | None, meanwhile: Callable[[], None] | None) -> bool:
    if meanwhile is None:
        thread.join(timeout_s)
        return not thread.is_alive()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while thread.is_alive() and (deadline is None or time.monotonic() < deadline):
        thread.join(STEP_S if deadline is None else max(0.0, min(STEP_S, deadline - time.monotonic())))
        meanwhile()
    return not thread.is_alive()


def _stop(thread: threading.Thread) -> Ran:
    """Raise TimeIsUp in the thread until it ends, for a while: what catches it once may not do so twice."""
    deadline = time.monotonic() + STOPS_WITHIN_S
    while thread.is_alive() and time.monotonic() < deadline:
        ident = ctypes.c_ulong(thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(TimeIsUp))
        thread.join(STEP_S)
    return Ran.RUNNING if thread.is_alive() else Ran.STOPPED


def _tasks() -> int:
    """The threads of this process; 0 where the system does not list them (Linux does)."""
    return len(os.listdir(TASKS)) if os.path.isdir(TASKS) else 0
