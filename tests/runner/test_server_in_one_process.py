"""The server where each job runs in its own process, with tiny jobs: answers and errors of forked ones."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bisector.inductor.serving.server import Server
from tests.runner.client import Client, as_it_is

MARKS: list[str] = []


class State:
    """Puts the marks back before each job, and finds the process broken once `broken` is marked."""

    def restore(self) -> None:
        MARKS.clear()

    def release(self) -> str | None:
        return "the device is lost" if "broken" in MARKS else None


def served(memory_bytes: int | None = None) -> Client:
    def serve(channel: socket.socket) -> None:
        Server(
            channel, job, as_it_is, memory_bytes, os.devnull, in_worker=lambda request: True, state=State()
        ).serve()

    return Client(serve)


def job(request: Mapping[str, Any]) -> Mapping[str, Any]:
    jobs: dict[str, Callable[[], Mapping[str, Any]]] = {
        "value": lambda: {"value": request["value"]},
        "where": lambda: {"pid": os.getpid(), "main": threading.current_thread() is threading.main_thread()},
        "marks": lambda: {"marks": list(MARKS), "added": MARKS.append(request["mark"])},
        "raise": _fail,
        "leave": lambda: sys.exit(3),
        "unwritable": lambda: {"value": object()},
        "allocate": lambda: {"length": len(bytearray(request["n_bytes"]))},
        "hang": lambda: {"slept": time.sleep(60)},
        "crash": lambda: {"killed": os.kill(os.getpid(), signal.SIGSEGV)},
    }
    return jobs[request["do"]]()


def _fail() -> Mapping[str, Any]:
    raise ValueError("first line\nsecond line")


@pytest.fixture
def client() -> Iterator[Client]:
    made = served()
    yield made
    assert made.end() == 0


def test_all_jobs_run_in_one_process_beside_its_main_thread(client: Client) -> None:
    answers = [client.ask(do="where")["answer"] for _ in range(3)]
    assert answers == [{"pid": client.pid, "main": False}] * 3


def test_requests_that_come_together_are_answered_in_turn(client: Client) -> None:
    client.send(*({"id": n, "do": "value", "value": n} for n in range(20)))
    assert [client.reply() for _ in range(20)] == [{"id": n, "answer": {"value": n}} for n in range(20)]


def test_the_state_is_put_back_before_each_job(client: Client) -> None:
    assert [client.ask(do="marks", mark="left")["answer"]["marks"] for _ in range(2)] == [[], []]


@pytest.mark.parametrize(
    ("do", "error"),
    [("raise", "ValueError: first line"), ("leave", "SystemExit: 3"), ("unwritable", "TypeError: ")],
)
def test_a_job_that_raises_is_an_error_of_one_line_and_the_process_goes_on(
    client: Client, do: str, error: str
) -> None:
    assert client.ask(do=do)["error"].startswith(error)
    assert client.ask(do="value", value=1) == {"id": 1, "answer": {"value": 1}}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"do": "hang", "timeout_s": 0.5}, "timeout after 0.5 s"),
        ({"do": "marks", "mark": "broken"}, "crash: the device is lost"),
    ],
)
def test_a_job_that_hangs_or_breaks_the_device_ends_the_process_with_its_answer(
    request_: Mapping[str, Any], error: str
) -> None:
    client = served()
    assert client.ask(**request_) == {"id": 1, "error": error, "ended": True}
    assert client.line() is None
    assert client.end() == 0


def test_what_was_asked_after_the_job_that_ends_the_process_is_not_run() -> None:
    client = served()
    client.send({"id": 1, "do": "marks", "mark": "broken"}, {"id": 2, "do": "value", "value": 2})
    assert client.line() == {"id": 1, "error": "crash: the device is lost", "ended": True}
    assert client.line() is None
    client.end()


def test_a_crash_ends_the_process_without_an_answer() -> None:
    client = served()
    client.send({"id": 1, "do": "crash"})
    assert client.line() is None
    assert os.WTERMSIG(client.end()) == signal.SIGSEGV


def test_memory_beyond_the_limit_is_an_error_and_the_end() -> None:
    used = 1 << 34
    client = served(memory_bytes=used)
    reply = client.ask(do="allocate", n_bytes=used + (1 << 30))
    assert reply == {"id": 1, "error": "out of memory", "ended": True}
    client.end()


def test_a_client_that_goes_away_ends_a_job_under_way() -> None:
    client = served()
    client.send({"id": 1, "do": "hang"})
    time.sleep(0.2)
    started = time.monotonic()
    client.end()
    assert time.monotonic() - started < 10
    assert not Path(f"/proc/{client.pid}").exists()
