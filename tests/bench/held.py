"""Time a search among kernel-local decisions: each compiled by itself, and all in one held compile.

    python tests/bench/held.py [--instances N] [--asked N]

A program, not a test. The subject has N vector operations; the first of them are denied one at a time, in
turns: plainly, and as a series. Prints medians of the wall seconds of a probe, and the held compile's cost.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.runner.worker_client import Worker, WorkerOptions

SCRIPT = """
import torch

torch.manual_seed(0)

def f(x, w):
    for _ in range({instances}):
        x = torch.tanh(x) @ w
    return x

torch.compile(f, dynamic=False)(torch.randn(16, 16), torch.randn(16, 16) / 4)
"""


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--asked", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(SCRIPT.format(instances=options.instances))
        worker = Worker(WorkerOptions(load={"target": str(script)}))
        try:
            worker.wait_until_ready()
            measure(worker, options.asked)
        finally:
            worker.close()


def measure(worker: Worker, asked: int) -> None:
    """Ask and print. The first question of the series waits for the held compile."""
    default, _ = timed(worker, Candidate(), {})
    members = [d["id"] for d in default["decisions"] if d["id"].startswith("vec:tanh")]
    _, first = timed(worker, Candidate.deny(members[:1]), {"series": True})
    plain, held = [], []
    for member in members[1 : asked + 1]:
        plain.append(timed(worker, Candidate.deny([member]), {})[1])
        held.append(timed(worker, Candidate.deny([member]), {"series": True})[1])
    print(f"{len(members)} decisions; the held compile and its first run: {first:.2f} s")
    print(f"plain: median {statistics.median(plain):.3f} s a probe, slowest {max(plain):.3f} s")
    print(f"held:  median {statistics.median(held):.3f} s a probe, slowest {max(held):.3f} s")


def timed(worker: Worker, candidate: Candidate, hints: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """The answer of one probe, and how long it took in seconds."""
    request = {"job": "probe", "call": 0, "case": WHOLE.to_json(), "candidate": candidate.to_json()}
    answers: list[dict[str, Any]] = []
    started = time.perf_counter()
    asked = {**request, "train": None, "timeout_s": 300, **hints}
    worker.ask([asked], 1, lambda _, reply: answers.append(reply))
    if "answer" not in answers[0]:
        raise SystemExit(f"a probe failed: {answers[0].get('error')}")
    return answers[0]["answer"], time.perf_counter() - started


if __name__ == "__main__":
    main()
