"""Holders with real forks and tiny jobs: who answers what, also when a holder dies."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bisector.inductor.serving.forked import RunJob
from bisector.inductor.serving.holders import MOST, REFUSED, Holders
from bisector.inductor.serving.server import Server
from tests.runner.client import Client, as_it_is

Request = Mapping[str, Any]


def job(request: Request) -> dict[str, Any]:
    return {"by": "a child", "parent": os.getppid()}


def hold(request: Request) -> RunJob:
    if request["key"] == "broken":
        raise ValueError("does not compile")
    if request["key"] == "slow":
        time.sleep(60)
    holder = os.getpid()

    def run(probe: Request) -> dict[str, Any]:
        if probe.get("die"):
            os.kill(holder, 9)
            time.sleep(60)
        return REFUSED if probe.get("refuse") else {"by": "a holder", "parent": holder}

    return run


def served(log: Path) -> Client:
    def serve_held(channel: socket.socket, run_job: RunJob) -> None:
        Server(channel, run_job, as_it_is, None, str(log)).serve()

    holders: Holders[Any] = Holders(lambda ask: ask.request.get("key"), hold, serve_held)
    return Client(lambda channel: Server(channel, job, as_it_is, None, str(log), holders=holders).serve())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = served(tmp_path / "log")
    yield made
    made.end()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_requests_of_one_key_are_answered_by_one_holder_and_others_by_children(client: Client) -> None:
    a, b, other, c = client.ask_all({"key": "k"}, {"key": "k"}, {}, {"key": "l"})
    assert [a["by"], b["by"], other["by"], c["by"]] == ["a holder", "a holder", "a child", "a holder"]
    assert a["parent"] == b["parent"] != c["parent"]


def test_what_a_holder_refuses_a_child_answers(client: Client) -> None:
    refused, taken = client.ask_all({"key": "k", "refuse": True}, {"key": "k"})
    assert [refused["by"], taken["by"]] == ["a child", "a holder"]


@pytest.mark.parametrize("key", ["broken", "slow"])
def test_a_holder_that_never_serves_is_not_tried_again_and_its_requests_are_answered(
    client: Client, key: str
) -> None:
    for _ in range(2):
        started = time.monotonic()
        [answer] = client.ask_all({"key": key, "timeout_s": 1.0})
        assert answer["by"] == "a child"
    assert time.monotonic() - started < 1.0


def test_a_holder_that_dies_leaves_its_requests_to_children_and_another_takes_over(client: Client) -> None:
    [dying] = client.ask_all({"key": "k", "die": True})
    assert dying["by"] == "a child"
    [again] = client.ask_all({"key": "k"})
    assert again["by"] == "a holder"


def test_of_many_holders_the_one_not_asked_for_longest_is_ended(client: Client) -> None:
    pids = [client.ask_all({"key": str(i)})[0]["parent"] for i in range(MOST + 1)]
    client.ask_all({})
    assert [alive(pid) for pid in pids] == [False] + [True] * MOST


def test_holders_end_with_the_server(tmp_path: Path) -> None:
    client = served(tmp_path / "log")
    [answer] = client.ask_all({"key": "k"})
    client.end()
    assert not alive(answer["parent"])
