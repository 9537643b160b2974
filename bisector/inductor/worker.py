"""The worker process: `python -m bisector.inductor.worker FD`, started by `bisector.runner.worker`.

It reads one line of options from the channel, loads torch and the target, answers with what was
recorded, and then serves jobs until the channel closes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any


def main(fd: int) -> None:
    channel = socket.socket(fileno=fd)
    # No other process may hold our end: the client takes its closing for our death.
    os.register_at_fork(after_in_child=channel.close)
    options = json.loads(_read_line(channel))
    log = os.open(options["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)  # the script's prints and the compilers' chatter; the channel has its own descriptor
    os.dup2(log, 2)
    hello, loaded = _start(options)
    channel.sendall(json.dumps(hello).encode() + b"\n")
    if loaded is None:
        return
    from . import jobs, server
    from .holders import Holders

    def run_job(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return jobs.JOBS[request["job"]](loaded, request)

    def serve_held(held_channel: socket.socket, run_held: Any) -> None:
        server.Server(held_channel, run_held, options["memory_bytes"], options["log"]).serve()

    def held_by(request: Mapping[str, Any]) -> str | None:
        return jobs.held_by(loaded, request)

    def hold(request: Mapping[str, Any]) -> Any:
        return jobs.hold(loaded, request)

    holders = Holders(held_by, hold, serve_held)
    memory_bytes, log_path = options["memory_bytes"], options["log"]
    served = server.Server(
        channel, run_job, memory_bytes, log_path, jobs.IN_WORKER, loaded.known.learn, holders
    )
    served.serve()
    sys.stdout.flush()
    os._exit(0)  # the subject's exit handlers have nothing to say here, and torch's own take a second


def _start(options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Import, install the hooks, run the target. Returns the hello line, and the subject unless it failed."""
    import torch

    threads = torch.get_num_threads()  # what a plain run of the script would have
    torch.set_num_threads(1)
    from . import load, warm

    if unknown := warm.unknown_flags(options["config"]):
        problem = f"-c {unknown[0]}: this torch has no such flag; `numbisect flags` lists some"
        return {"problem": problem}, None
    warm.warm_up()
    if options["first"]:
        warm.build_header()
    load_options = load.LoadOptions(**options["load"], threads=threads)
    with load.quiet_stdin():
        loaded = load.load(load_options)
    sys.stdout.flush()
    if loaded.problem is not None:
        return {"problem": loaded.problem}, None
    warm.apply_baseline(loaded, options["config"])
    from .graph.describe import summary

    return summary(loaded), loaded


def _read_line(channel: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        part = channel.recv(1)
        if not part:
            raise SystemExit(0)  # the parent went away before it said anything
        data += part
    return bytes(data)


if __name__ == "__main__":
    main(int(sys.argv[1]))
