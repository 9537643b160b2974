"""The profile of a run: what several processes append to one file is a Chrome trace."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bisector.errors import BadOption
from bisector.tracing import SILENT, Trace


def spans(path: Path) -> list[dict[str, Any]]:
    return [event for event in json.loads(path.read_text()) if event["ph"] == "X"]


def test_what_two_processes_write_is_one_array_of_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = Trace.begun(str(path))
    with trace.spent("stages", "causes", of=3):
        if (pid := os.fork()) == 0:
            Trace(str(path)).span("probes", "RunProbe", time.monotonic(), cpu_s=0.5)
            os._exit(0)
        os.waitpid(pid, 0)
    trace.end()
    inner, outer = spans(path)
    assert (inner["pid"], inner["cat"], inner["args"]) == (pid, "probes", {"cpu_s": 0.5})
    assert (outer["pid"], outer["name"], outer["args"]) == (os.getpid(), "causes", {"of": 3})
    assert outer["ts"] <= inner["ts"] <= outer["ts"] + outer["dur"]


def test_what_overlaps_stands_in_rows_of_its_own(tmp_path: Path) -> None:
    trace = Trace.begun(str(tmp_path / "trace.json"))
    began = time.monotonic()
    trace.span("probes", "first", began)
    trace.span("probes", "beside the first", began)
    trace.span("probes", "after both", time.monotonic())
    trace.end()
    first, beside, after = (event["tid"] for event in spans(tmp_path / "trace.json"))
    assert first != beside and after in (first, beside)


def test_nothing_is_written_where_nobody_asked() -> None:
    SILENT.process("numbisect")
    SILENT.span("stages", "causes", 0.0)
    SILENT.end()
    assert SILENT.path is None


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"--trace .*gone.*name a file you can write"):
        Trace.begun(str(tmp_path / "gone" / "trace.json"))
