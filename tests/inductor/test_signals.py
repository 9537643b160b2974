"""A script that runs in a thread of ours finds itself in the main thread, and asyncio does too."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from bisector.inductor.capture.intercept import MainThread


def in_thread(work: Any) -> list[Any]:
    """What the work gives, or raises, in a thread that passes for the main one."""
    found: list[Any] = []

    def run() -> None:
        with pytest.MonkeyPatch.context() as patched:
            for owner, name, stand_in in MainThread().stand_ins():
                patched.setattr(owner, name, stand_in)
            try:
                found.append(work())
            except Exception as error:  # noqa: BLE001 - it is what the test looks at
                found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    return found


async def served() -> str:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.remove_signal_handler(signal.SIGTERM)
    return "served"


def test_asyncio_takes_signal_handlers_there() -> None:
    assert in_thread(lambda: asyncio.run(served())) == ["served"]


def test_a_handler_that_was_set_is_the_one_that_is_found() -> None:
    def handler(*given: Any) -> None: ...

    def work() -> Any:
        before = signal.signal(signal.SIGTERM, handler)
        return before, signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGTERM, before)

    [(before, found, again)] = in_thread(work)
    assert (found, again) == (handler, handler)
    assert before == signal.getsignal(signal.SIGTERM), "outside of the thread nothing has changed"


def test_the_script_s_thread_is_the_main_thread_and_no_other_is() -> None:
    def work() -> tuple[bool, bool]:
        other: list[bool] = []
        thread = threading.Thread(
            target=lambda: other.append(threading.current_thread() is threading.main_thread())
        )
        thread.start()
        thread.join()
        return threading.current_thread() is threading.main_thread(), other[0]

    assert in_thread(work) == [(True, False)]


def test_an_alarm_of_the_script_does_not_end_the_process() -> None:
    assert in_thread(lambda: (signal.alarm(1), signal.setitimer(signal.ITIMER_REAL, 1))) == [(0, (0.0, 0.0))]


def test_in_the_main_thread_nothing_is_replaced() -> None:
    assert MainThread().stand_ins() == []
