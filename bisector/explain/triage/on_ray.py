"""Jobs on a Ray cluster: the same files, on whichever node has room.

The store must be on a file system that all nodes share. Ray gives a job to another node where one dies; the
job finds its journal and goes on with it. Nothing is kept in Ray: the driver may die too.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from bisector.errors import MissingTool

from .driver import job_command, run_job

ANSWERS_WITHIN_S = 10.0
RETRIES = 3  # of a job whose node died


class RayPool:
    """As many jobs at a time as the cluster has processors, or devices where it has any."""

    def __init__(self, address: str) -> None:
        self._ray = _connected(address)
        # Ray prints what it has to say of its nodes; stdout is for the result.
        self._aside = contextlib.redirect_stdout(sys.stderr)
        self._aside.__enter__()
        resources = self._ray.cluster_resources()
        devices = int(resources.get("GPU", 0))
        self.width = max(1, devices or int(resources.get("CPU", 1)))
        self._job = self._ray.remote(_run).options(
            num_cpus=1, num_gpus=1 if devices else 0, max_retries=RETRIES, retry_exceptions=False
        )

    def submit(self, request: Path) -> Future[str | None]:
        ended: Future[str | None] = Future()
        running = self._job.remote(str(request)).future()
        running.add_done_callback(lambda done: ended.set_result(_ended(done)))
        return ended

    def close(self) -> None:
        self._ray.shutdown()
        self._aside.__exit__(None, None, None)


def _connected(address: str) -> Any:
    """Ray, connected. Raises MissingTool where it is not installed or nobody answers."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise MissingTool("--ray needs Ray; install it with: pip install 'numbisect[ray]'") from error
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself waits minutes for a cluster that is not there
            socket.create_connection((host, int(port)), ANSWERS_WITHIN_S).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        line = str(error).strip().splitlines()[0]
        raise MissingTool(f"--ray {address}: {line}; start a cluster with `ray start --head`") from error
    return ray


def _run(request: str) -> str | None:
    """On a node, as a process of one that is Ray's: it dies with its node."""
    file = Path(request)
    if not file.is_file():
        return f"{request} is not on this node; put --out on a file system that all nodes share"
    return run_job(job_command(file), file, set())


def _ended(done: Future[str | None]) -> str | None:
    error = done.exception()
    if error is None:
        return done.result()
    return f"its job died: {type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"
