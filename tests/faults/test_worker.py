"""The client's end of a worker, with small programs in the place of one, that do what no worker should."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector import processes
from bisector.core.messages import LoadOptions, Reply, WorkerOptions
from bisector.core.protocol import SelfTest
from bisector.errors import BadTarget, CannotWrite, OutOfTime, WorkerLost
from bisector.request_json import dump_request
from bisector.runner import worker_client as workers
from bisector.runner.worker_client import Worker
from tests.faults.waiting import is_gone

# `line()` is the next message, `say(text)` sends one; the first message is of the options.
PRELUDE = """
import json, os, signal, socket, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
lines = channel.makefile("rb")
line = lambda: json.loads(lines.readline() or b"null")
say = lambda text: channel.sendall(text if isinstance(text, bytes) else json.dumps(text).encode() + b"\\n")
options = line()
"""
HELLO = """
say({"calls": [], "scripted": True, "skipped_calls": 0, "ended": "", "eager_disagrees": 0, "notes": [],
     "machine": {"torch": "2"}})
asked = line()
"""
FOREVER = "\ntime.sleep(600)\n"
Start = Callable[..., Worker]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    started: list[Worker] = []
    real = processes.start

    def program_instead(command: Sequence[str], **given: Any) -> processes.Started:
        return real([sys.executable, "-c", PRELUDE + program[0], command[-2]], **given)

    program: list[str] = []
    monkeypatch.setattr(workers.processes, "start", program_instead)
    monkeypatch.setattr(workers, "START_S", 1.0)
    monkeypatch.setattr(workers, "CLOSES_S", 0.3)

    def begin(text: str, **options: Any) -> Worker:
        program[:] = [text]
        load = LoadOptions("/there/case.py", timeout_s=1.0)
        started.append(Worker(WorkerOptions(load, log=str(tmp_path / "worker.log"), **options)))
        return started[-1]

    yield begin
    for worker in started:
        worker.close()
        assert is_gone(worker.process.pid)


def ask(worker: Worker, timeout_s: float = 0.2) -> list[Reply]:
    worker.wait_until_ready()
    replies: list[Reply] = []
    worker.ask([dump_request(SelfTest())], timeout_s, 1, lambda index, reply: replies.append(reply))
    return replies


@pytest.mark.parametrize(
    ("program", "error", "line"),
    [
        ("sys.exit(0)", BadTarget, r"case\.py ended the process that ran it"),
        ("os.kill(os.getpid(), 9)", WorkerLost, r"ran case\.py was ended by signal 9 \(SIGKILL\); its last"),
        ("os.kill(os.getpid(), 11)", WorkerLost, r"signal 11 \(SIGSEGV\)"),
        ("lines.close(); channel.close()" + FOREVER, BadTarget, "close no files in it but its own"),
        ("say(b'hello\\n')" + FOREVER, WorkerLost, "what is no message"),
        ("say(b'\\xff\\xfe\\n')" + FOREVER, WorkerLost, "what is no message"),
        ("say([1])" + FOREVER, WorkerLost, "what is no message"),
        ("say('problem')" + FOREVER, WorkerLost, "what is no message"),
        ("say({'calls': 1})" + FOREVER, WorkerLost, "what is no message"),
        ("say({'problem': 'no', 'late': False})", BadTarget, "^no$"),
        ("say({'problem': 'too slow', 'late': True})", OutOfTime, "^too slow$"),
        (FOREVER, OutOfTime, r"case\.py did not end within 1 s and blocks its process; make it shorter"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", OutOfTime, "did not end within 1 s"),
    ],
)  # fmt: skip
def test_a_worker_that_says_no_hello_is_told_in_one_line(
    program: str, error: type[Exception], line: str, start: Start
) -> None:
    begun = time.monotonic()
    with pytest.raises(error, match=line):
        start(program).wait_until_ready()
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("sys.exit(0)", "died"),
        ("os.kill(os.getpid(), 9)", "died"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", r"said nothing for 1\.4 s and was ended"),
        (FOREVER, "said nothing"),
        ("say(b'hello\\n')" + FOREVER, "what is no message"),
        ("say({'what': 1})" + FOREVER, "what is no message"),
        ("say(b'{\"id\": 1')" + FOREVER, "said nothing"),
        ("say({'id': 1, 'error': 'timeout', 'ended': True})" + FOREVER, "ended with its last answer"),
    ],
)
def test_a_worker_that_does_not_answer_is_lost(program: str, line: str, start: Start) -> None:
    begun = time.monotonic()
    with pytest.raises(WorkerLost, match=line):
        ask(start(HELLO + program))
    assert time.monotonic() - begun < 20


def test_an_answer_to_a_question_that_nobody_waits_for_any_more_is_dropped(start: Start) -> None:
    late = "say({'id': 99, 'answer': 1}); say({'id': asked['id'], 'answer': 2})"
    assert ask(start(HELLO + late + FOREVER)) == [Reply(1, 2)]


def test_a_worker_that_reads_nothing_is_lost(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = start(HELLO.replace("asked = line()", "") + FOREVER)
    worker.wait_until_ready()
    with pytest.raises(WorkerLost):
        worker.ask([{"long": "x" * 10_000_000}], 0.2, 1, lambda index, reply: None)


def test_what_is_left_of_the_budget_bounds_the_wait_for_a_script(start: Start) -> None:
    begun = time.monotonic()
    worker = start(FOREVER, left_s=0.0)
    with pytest.raises(OutOfTime, match=r"did not end within 0 s"):
        worker.wait_until_ready()
    assert time.monotonic() - begun < 10


def test_a_worker_ends_with_what_it_started(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    leaves = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(file)!r}, 'w').write(str(child.pid))\n"
        "say({'id': 1, 'answer': None})"
    )
    worker = start(HELLO + leaves + FOREVER)
    ask(worker, timeout_s=20.0)
    os.kill(worker.process.pid, signal.SIGSTOP)
    workers_close = time.monotonic()
    worker.close()
    assert time.monotonic() - workers_close < 15
    assert is_gone(int(file.read_text()))


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "worker.log"
    with pytest.raises(CannotWrite, match=r"worker\.log: No such file or directory; make it writable"):
        Worker(WorkerOptions(LoadOptions("case.py"), log=str(gone)))
