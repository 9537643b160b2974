"""Where the time of a run goes: `--trace`, and the CPU time in its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
CASE = Path(__file__).resolve().parents[2] / "repros" / "fp16_round_trip" / "case.py"


def test_a_trace_tells_of_each_probe_and_what_it_took(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    arguments = ["check", str(CASE), "--trace", str(trace), "--out", str(tmp_path / "run"), "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "bisector", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    events = json.loads(trace.read_text())
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    rows = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(rows) == len(set(rows))
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in spans} >= {"capture", "import torch", "run the target", "RunVerdict"}
    probes = [event for event in spans if event["cat"] == "probes"]
    [verdict] = [event for event in probes if event["name"] == "RunVerdict"]
    assert processes[verdict["pid"]].startswith("worker") and verdict["args"]["cpu_s"] > 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["seconds"]["cpu"] >= verdict["args"]["cpu_s"]
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!doctype html>")
