"""The main job, live: from the command line to the repro in a fresh process, its test, its builds, its trace.

What is known of the other worked cases is asserted of their recordings (tests/replay).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from tests.command import numbisect
from tests.known import TOLD
from tests.live_run import CASE, INTRODUCED, LiveRun


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.__name__)
def test_the_worked_case_ends_with_what_is_known_of_it(live: LiveRun, told: Callable[..., None]) -> None:
    assert live.status == 0
    told(CASE, live.result)


def test_the_repro_diverges_alone_and_its_fix_repairs_it(live: LiveRun, tmp_path: Path) -> None:
    for arguments, status in (([], 1), (["--fixed"], 0)):
        done = subprocess.run(
            [sys.executable, "-I", str(live.repro), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr


def test_the_test_fails_by_its_comparison_and_passes_with_the_fix(
    live: LiveRun, tmp_path: Path, warm: str
) -> None:
    text = (live.path / live.result["test"]).read_text()
    assert text.replace("test_repro.py", "repro.py").split() == live.repro.read_text().split()
    for source, status in ((text, 1), (text.replace('if "--fixed" in sys.argv:', "if True:"), 0)):
        (tmp_path / "test_repro.py").write_text(source)
        done = subprocess.run(
            [warm, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_repro.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout
        assert ("Differs: Tensor-likes are not" in done.stdout) == (status == 1)


def test_the_result_and_the_reports_of_a_run_are_whole(live: LiveRun) -> None:
    schema = json.loads(resources.files("bisector.report").joinpath("result.schema.json").read_text())
    jsonschema.validate(live.result, schema)
    assert json.loads((live.path / "result.json").read_text()) == live.result
    assert live.repro.read_text() in (live.path / live.result["report_markdown"]).read_text()
    assert (live.path / live.result["report_html"]).read_text().startswith("<!doctype html>")


def test_the_nearest_case_that_agrees_has_other_code(live: LiveRun) -> None:
    neighbour = live.result["neighbour"]
    assert neighbour["differs_by"].startswith(("disabling ", "with ", "without "))
    lines = (live.path / neighbour["artifact_diff"]).read_text().splitlines()
    assert any(line.startswith("+") and not line.startswith("+++") for line in lines)


def test_the_builds_of_the_repro_stand_in_its_result_and_report(live: LiveRun) -> None:
    found = live.result["builds"]
    assert (found["before"]["name"], found["after"]["name"]) == INTRODUCED
    assert live.result["seconds"]["builds"] > 0
    shown = numbisect("report", live.path)
    sentence = "The divergence was introduced between {} (agrees) and {} (diverges)".format(*INTRODUCED)
    assert sentence in " ".join(shown.stdout.split())
    assert sentence in (live.path / live.result["report_markdown"]).read_text()


def test_the_trace_tells_of_each_probe_and_what_it_took(live: LiveRun) -> None:
    events = json.loads(live.trace.read_text())
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    rows = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(rows) == len(set(rows))
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in spans} >= {"capture", "import torch", "run the target", "RunVerdict"}
    verdict = next(event for event in spans if event["cat"] == "probes" and event["name"] == "RunVerdict")
    assert processes[verdict["pid"]].startswith("worker") and verdict["args"]["cpu_s"] > 0
    assert live.result["seconds"]["cpu"] >= verdict["args"]["cpu_s"]
