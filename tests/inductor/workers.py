"""A real worker with a script in it, and its answers as their types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bisector import request_json
from bisector.core.case import WHOLE
from bisector.core.messages import LoadOptions, Reply, WorkerOptions
from bisector.core.protocol import About, Failed, Request
from bisector.runner.worker_client import Worker

ABOUT = About(0, WHOLE, None, {})


@contextmanager
def working(script: Path, text: str, **options: Any) -> Iterator[Worker]:
    script.write_text(text)
    log = str(script.with_suffix(".log"))
    worker = Worker(WorkerOptions(LoadOptions(str(script)), first=False, log=log, **options))
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.close()


def answers(
    worker: Worker, *requests: Request[Any], timeout_s: float = 120.0, at_a_time: int = 2
) -> list[Any]:
    """In the order of the requests; Failed where there is none."""
    replies: dict[int, Reply] = {}
    told = [request_json.dump_request(one) for one in requests]
    worker.ask(told, timeout_s, at_a_time, replies.__setitem__)
    return [_answer(request, replies[i]) for i, request in enumerate(requests)]


def _answer(request: Request[Any], reply: Reply) -> Any:
    return Failed(reply.error) if reply.error is not None else request_json.load_answer(request, reply.answer)
