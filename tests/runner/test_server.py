"""The fork server with real forks and tiny jobs: whatever a job does to its process stays in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bisector.inductor.serving.server import Server
from tests.runner.client import Client, as_it_is, message

Job = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def served(job: Job, log: Path, memory_bytes: int | None = None) -> Client:
    def stays(request: Mapping[str, Any]) -> bool:
        return request.get("job") == "stay"

    return Client(lambda channel: Server(channel, job, as_it_is, memory_bytes, str(log), stays).serve())


def job(request: Mapping[str, Any]) -> Mapping[str, Any]:
    do = request["do"]
    if do == "return":
        return {"value": request["value"]}
    if do == "raise":
        raise ValueError("first line\nsecond line")
    if do == "signal":
        os.kill(os.getpid(), request["number"])
    if do == "exit":
        os._exit(request["status"])
    if do == "system exit":
        sys.exit(3)
    if do == "allocate":
        return {"length": len(bytearray(request["n_bytes"]))}
    if do == "unwritable":
        return {"value": object()}
    if do == "close all":
        os.closerange(3, 100)
    if do == "state":
        os.environ["MARK"], mark = "set", os.environ.get("MARK")
        return {"mark": mark}
    if do == "pid":
        return {"pid": os.getpid(), "parent": os.getppid()}
    if do == "grandchild":
        return grandchild(request)
    hang()
    raise AssertionError("not reached")


def hang() -> None:
    while True:
        signal.pause()


def grandchild(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave a process behind that would run for ever; `forked` ones share our open files."""
    if request["forked"]:
        pid = os.fork()
        if pid == 0:
            hang()
    else:
        pid = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid
    Path(request["file"]).write_text(str(pid))
    if request["then"] == "hang":
        hang()
    if request["then"] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"pid": pid}


def is_gone(pid: int) -> bool:
    """Whether the process is dead or a zombie; waits for the kernel to take it down."""
    for _ in range(2000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.001)
    return False


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = served(job, tmp_path / "log")
    yield made
    assert made.end() == 0


def test_a_job_that_returns_is_answered(client: Client) -> None:
    assert client.ask(id=7, do="return", value=[1, None, "ä"]) == {
        "id": 7,
        "answer": {"value": [1, None, "ä"]},
    }


def test_an_answer_longer_than_a_pipe_holds_comes_whole(client: Client) -> None:
    assert client.ask(do="return", value="x" * 3_000_000)["answer"] == {"value": "x" * 3_000_000}


def test_an_exception_is_an_error_of_one_line(client: Client) -> None:
    assert client.ask(do="raise") == {"id": 1, "error": "ValueError: first line"}


def test_a_crash_is_an_error_that_names_the_signal(client: Client) -> None:
    reply = client.ask(do="signal", number=int(signal.SIGSEGV))
    assert reply == {"id": 1, "error": "crash: signal 11 (SIGSEGV)"}


def test_a_signal_without_a_name_is_an_error_too(client: Client) -> None:
    assert client.ask(do="signal", number=40)["error"] == "crash: signal 40"


def test_a_job_that_leaves_early_is_an_error(client: Client) -> None:
    assert client.ask(do="exit", status=5)["error"] == "crash: the probe's process left with status 5"
    assert client.ask(do="system exit")["error"] == "SystemExit: 3"


def test_a_job_that_hangs_ends_at_its_time_limit(client: Client) -> None:
    assert client.ask(do="hang", timeout_s=1.0) == {"id": 1, "error": "timeout after 1 s"}


def test_an_answer_that_is_no_json_is_an_error_and_harms_no_other_job(client: Client) -> None:
    client.send({"id": 1, "do": "hang", "timeout_s": 1.0}, {"id": 2, "do": "unwritable"})
    first, second = client.reply(), client.reply()
    assert first["id"] == 2
    assert first["error"].startswith("TypeError")
    assert second == {"id": 1, "error": "timeout after 1 s"}


def test_a_job_that_closes_its_files_is_a_crash_and_the_server_lives(client: Client) -> None:
    assert client.ask(do="close all")["error"].startswith("crash")
    assert client.ask(do="return", value=1)["answer"] == {"value": 1}


def test_what_a_job_changes_is_as_before_in_the_next_one(client: Client) -> None:
    assert [client.ask(do="state")["answer"] for _ in range(2)] == [{"mark": None}] * 2


def test_a_job_that_is_there_for_what_it_leaves_behind_runs_in_the_server(client: Client) -> None:
    assert client.ask(do="state", job="stay")["answer"] == {"mark": None}
    assert client.ask(do="state")["answer"] == {"mark": "set"}
    assert client.ask(do="raise", job="stay")["error"] == "ValueError: first line"
    assert client.ask(do="return", value=1)["answer"] == {"value": 1}


def test_jobs_run_side_by_side_and_each_gets_its_own_answer(client: Client) -> None:
    client.send(*({"id": n, "do": "return", "value": n} for n in range(20)))
    replies = [client.reply() for _ in range(20)]
    assert {r["id"]: r["answer"]["value"] for r in replies} == {n: n for n in range(20)}


def test_a_request_may_arrive_in_pieces(client: Client) -> None:
    line = json.dumps(message(3, do="return", value=1)).encode() + b"\n"
    for i in range(len(line)):
        client.channel.sendall(line[i : i + 1])
    assert client.reply()["id"] == 3


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize(
    ("then", "error"),
    [("return", None), ("hang", "timeout after 1 s"), ("crash", "crash: signal 9 (SIGKILL)")],
)
def test_what_a_job_leaves_behind_is_killed_with_it(
    client: Client, tmp_path: Path, forked: bool, then: str, error: str | None
) -> None:
    limit = 1.0 if then == "hang" else 15.0
    reply = client.ask(do="grandchild", forked=forked, then=then, file=str(tmp_path / "pid"), timeout_s=limit)
    assert reply.get("error") == error
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_child_is_no_zombie_once_it_has_answered(client: Client) -> None:
    pid = client.ask(do="pid")["answer"]["pid"]
    assert not Path(f"/proc/{pid}").exists()


def test_memory_beyond_the_limit_is_an_error_and_within_it_is_not(tmp_path: Path) -> None:
    used = 1 << 34  # far more than the test process has: the limit counts what it started with
    client = served(job, tmp_path / "log", memory_bytes=used)
    assert client.ask(do="allocate", n_bytes=used + (1 << 30)) == {"id": 1, "error": "out of memory"}
    assert client.ask(do="allocate", n_bytes=1 << 20)["answer"] == {"length": 1 << 20}
    assert client.end() == 0


@pytest.mark.parametrize("how", ["close", "kill"])
def test_the_jobs_end_with_the_server(tmp_path: Path, how: str) -> None:
    client = served(job, tmp_path / "log")
    file = tmp_path / "pid"
    client.send({"id": 1, "do": "grandchild", "forked": False, "then": "hang", "file": str(file)})
    client.send({"id": 2, "do": "pid"})
    client.reply()
    children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    if how == "kill":
        os.kill(client.pid, signal.SIGKILL)
    client.end()
    assert children
    assert all(is_gone(int(pid)) for pid in children)
    if (
        how == "kill" and file.exists()
    ):  # nobody is left to kill the group: that is the init system's business
        os.kill(int(file.read_text()), signal.SIGKILL)


def test_the_log_has_the_trace_that_the_error_line_leaves_out(client: Client, tmp_path: Path) -> None:
    client.ask(do="raise")
    assert "second line" in (tmp_path / "log").read_text()
