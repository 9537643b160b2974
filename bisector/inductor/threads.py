"""A thread for tensor code in a process that forks, which runs none in its main thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

# OpenMP's helpers leave within a few milliseconds of their thread; a script's own threads may stay for ever.
PATIENCE_S = 1.0
TASKS = "/proc/self/task"


def run_in_thread(work: Callable[[], None], name: str, timeout_s: float | None = None) -> bool:
    """Run `work` in a thread of its own; False if it still runs after the time given.

    OpenMP ends a thread's helpers after the thread, without anybody waiting for them. A fork meanwhile takes
    along the locks they hold (those of MKL's buffers, for one) with nobody to release them, and the child
    hangs in its first matrix product. So this returns when they are gone, as far as the system tells.
    """
    before = _tasks()
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        return False
    patience = time.monotonic() + PATIENCE_S
    while _tasks() > before and time.monotonic() < patience:
        time.sleep(0.001)
    return True


def _tasks() -> int:
    """The threads of this process; 0 where the system does not list them (Linux does)."""
    return len(os.listdir(TASKS)) if os.path.isdir(TASKS) else 0
