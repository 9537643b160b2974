"""A triage on a real Ray cluster of two nodes, on this machine: the same clusters, and a node may die.

    pip install 'numbisect[ray]'; pytest studies/fuzz/test_on_ray.py -n 0
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from studies.fuzz.variants import script


@pytest.fixture(autouse=True)
def _ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'numbisect[ray]'")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", *arguments]
    subprocess.run([*command, "--disable-usage-stats"], cwd=folder, check=True, capture_output=True)


def raylets() -> set[int]:
    found = subprocess.run(["pgrep", "-f", "raylet/raylet "], capture_output=True, text=True, check=False)
    return {int(line) for line in found.stdout.split()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address, and the process of the second node."""
    address = f"127.0.0.1:{free_port()}"
    start(tmp_path, "--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false")
    head = raylets()
    start(tmp_path, f"--address={address}")
    (second,) = raylets() - head
    yield address, second
    stop = [sys.executable, "-m", "ray.scripts.scripts", "stop", "--force"]
    subprocess.run(stop, check=True, capture_output=True)


def failures(folder: Path) -> None:
    (folder / "in").mkdir()
    for cause in ("cast", "remainder"):
        for number in range(2):
            (folder / "in" / f"{cause}_{number}.py").write_text(script(cause, number))


def triage(folder: Path, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bisector", "triage", "in", "--out", "out", "--json", "-"]
    return subprocess.Popen(
        [*command, "--ray", address], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def clusters(process: subprocess.Popen[str]) -> list[tuple[str, int]]:
    printed, log = process.communicate(timeout=1500)
    assert process.returncode == 0, log
    told: dict[str, Any] = json.loads(printed)
    return sorted((each["key"], each["size"]) for each in told["clusters"])


WANTED = [("cast:float16", 2), ("vec:remainder", 2)]


def test_two_nodes_find_what_one_machine_does(cluster: tuple[str, int], tmp_path: Path) -> None:
    failures(tmp_path)
    assert clusters(triage(tmp_path, cluster[0])) == WANTED


def test_a_node_that_dies_loses_nothing(cluster: tuple[str, int], tmp_path: Path) -> None:
    address, second = cluster
    failures(tmp_path)
    running = triage(tmp_path, address)
    while explaining(tmp_path / "out" / "failures") < 2:  # both nodes are at it
        assert running.poll() is None, running.communicate()
        time.sleep(0.5)
    os.kill(second, signal.SIGKILL)
    assert clusters(running) == WANTED


def explaining(store: Path) -> int:
    """How many failures a full run was asked of."""
    requests = [json.loads(file.read_text()) for file in store.glob("*/request.json")]
    return sum(request["options"]["command"] == "minimize" for request in requests)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    failures(tmp_path)
    process = triage(tmp_path, f"127.0.0.1:{free_port()}")
    _, log = process.communicate(timeout=300)
    assert process.returncode == 2
    assert log.splitlines()[-1].startswith("numbisect: --ray 127.0.0.1:")
