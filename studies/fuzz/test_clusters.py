"""Sixty failures of six known causes, and twenty more: a triage puts them where they belong.

It takes half an hour: pytest studies/fuzz -n 0
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bisector.core.clusters import rand_index
from studies.fuzz.variants import CAUSES, script, write

# A cause that is not among the known ones: an addition of zeros is folded, which loses the sign of a zero.
NEW = """
import torch


def late(x):
    return torch.reciprocal(torch.ceil(x) + torch.zeros_like(x)){around}


x = torch.tensor([-0.5, -0.1, -0.9, 0.5] * {times})
torch.testing.assert_close(torch.compile(late)(x), late(x))
"""


def triaged(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bisector", "triage", "in", "--out", "out", "--json", "-"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def index_of(told: dict[str, Any], truth: dict[str, str]) -> float:
    ours = [one["key"] for one in told["failures"]]
    return rand_index(ours, [truth[Path(one["target"]).name] for one in told["failures"]])


def test_sixty_failures_are_six_clusters_and_twenty_more_are_worked_on_alone(tmp_path: Path) -> None:
    truth = write(tmp_path / "in", range(10))
    first = triaged(tmp_path)
    assert len(first["failures"]) == 60
    assert index_of(first, truth) >= 0.95
    assert len(first["clusters"]) == len(CAUSES)
    full = [one["probes"] for one in first["failures"] if not one["known"]]
    assert first["probes"] <= 60 * sum(full) / len(full) / 3

    truth |= write(tmp_path / "in", range(10, 13))
    for number in range(2):
        name = f"new_{number}.py"
        (tmp_path / "in" / name).write_text(NEW.format(around=("", " * 1.0")[number], times=number + 1))
        truth[name] = "zeros"
    second = triaged(tmp_path)
    before = {one["id"]: one for one in first["failures"]}
    after = {one["id"]: one for one in second["failures"]}
    assert len(after) == 80
    assert all(after[i] == one for i, one in before.items())
    assert len(second["clusters"]) == len(CAUSES) + 1
    assert index_of(second, truth) >= 0.95


def test_a_variant_is_the_same_for_the_same_number() -> None:
    assert script("cast", 3) == script("cast", 3) != script("cast", 4)
