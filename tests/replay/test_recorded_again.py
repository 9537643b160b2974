"""Recordings made again: what workers, compilers and scripts say now is what was recorded.

One of each way to a verdict is recorded again, by its cheapest recording; `just record` makes them all.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from bisector.runner import lab

from .recording import NoWorker, read, record, text_of
from .runs import RUNS

AGAIN = (
    "above-a-helper-that-dynamo-inlines-gives-something-else-where-it-is-traced",  # a script
    "flags-fp16",  # a graph
    "form-a-variable-is-set-before-torch-is-imported",  # a second worker
    "form-dropout-and-a-wrong-function-beneath-it",  # random numbers
)


@pytest.mark.live
@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("name", AGAIN)
def test_a_command_that_is_recorded_again_is_told_what_it_was_told(name: str, tmp_path: Path) -> None:
    again, _ = record(RUNS[name], tmp_path / "work")
    then, now = text_of(read(name)).splitlines(), text_of(again).splitlines()
    assert not list(difflib.unified_diff(then, now, "recorded", "now", lineterm="", n=0))


def test_what_is_recorded_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "Worker", NoWorker)
    recorded = read("flags-fp16")
    again, _ = record(RUNS["flags-fp16"], tmp_path / "work", recorded.answers)
    assert text_of(again) == text_of(recorded)
