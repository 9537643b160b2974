"""Planted truths: that they are what they say, and what numbisect says of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from studies.truth.matrix import Said, ask, table
from studies.truth.planted import RIGHT, Planted, Truth, draw
from tests.command import numbisect

from .recording import Ended, read
from .runs import MOVING, SEEDS, TRUTHS, of_truth

RACING_SUMS = """
import torch
torch.manual_seed(0)
x = torch.randn(200_000, 8)
i = torch.randint(0, 64, (200_000,))

def f(x, i):
    y = torch.sin(x * 1.5)
    return torch.zeros(64, 8).index_add(0, i, y) * 1e3

torch.testing.assert_close(torch.compile(f)(x, i), f(x, i))
"""


def test_a_truth_is_drawn_again_from_its_seed() -> None:
    assert [draw(seed) for seed in range(20)] == [draw(seed) for seed in range(20)]
    assert len({draw(seed).source for seed in range(100)}) == 100


def test_each_kind_of_truth_is_drawn_and_is_python() -> None:
    drawn = [draw(seed) for seed in range(100)]
    assert Counter(truth.planted for truth in drawn).keys() == set(Planted) == RIGHT.keys()
    for truth in drawn:
        compile(truth.source, "truth.py", "exec")


def test_the_table_counts_what_shows_and_no_truth_that_nobody_sees() -> None:
    bug = Truth(0, Planted.BUG, "mask", "")
    said = [
        Said(bug, "compiled-worse", "", True),
        Said(bug, "agrees", "", True),
        Said(bug, "agrees", "", False),
        Said(Truth(1, Planted.RACE, "values", ""), "nondeterministic", "", False),
    ]
    lines = table(said).splitlines()
    assert lines[0] == "| planted | agrees | compiled-worse | nondeterministic |"
    assert "| bug | 1 | 1 |  |" in lines
    assert lines[-1] == "2 of 3 right; 1 of 4 did not show."


@pytest.mark.parametrize("truth", TRUTHS, ids=of_truth)
def test_of_what_was_planted_the_right_class_is_said(truth: Truth, replay_of: Callable[[str], Ended]) -> None:
    name = of_truth(truth)
    verdict = replay_of(name).result["verdict"]
    right = {kind.value for kind in RIGHT[truth.planted]}
    hidden = not any(one.answer["status"] for one in read(name).answers if one.job == "program")
    assert verdict["class"] in (right | {"agrees"} if hidden else right), verdict["reason"]


def test_of_each_kind_a_truth_shows_itself(replay_of: Callable[[str], Ended]) -> None:
    seen = [t for t in TRUTHS if replay_of(of_truth(t)).result["verdict"]["class"] != "agrees"]
    assert {truth.planted for truth in seen} == set(Planted) - set(MOVING)


@pytest.mark.live
def test_what_nobody_wrote_is_told_to_move_from_run_to_run(tmp_path: Path) -> None:
    seed = next(seed for seed in SEEDS if draw(seed).planted is Planted.UNDEFINED)
    said = ask(draw(seed), tmp_path)
    assert said.right or not said.counts, (said.verdict, said.reason, said.truth.source)


@pytest.mark.live
@pytest.mark.usefixtures("warm_workers")
def test_racing_sums_are_no_cause_but_are_named_with_what_stops_them(tmp_path: Path) -> None:
    script = tmp_path / "racing.py"
    script.write_text(RACING_SUMS)
    done = numbisect("minimize", script, "--json", "-", "--out", tmp_path / "run", "-q")
    assert done.returncode == 3, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"]["class"] == "nondeterministic"
    assert result["verdict"]["rule"] == "compiled-repeated"
    assert result["verdict"]["figures"]["unlike_first"] > 0
    assert not (result["causes"] or result["repairs"] or result["fixes"])
    notes = " ".join(result["text_notes"])
    assert "begin to differ at `index_add`" in notes
    assert "with inductor.cpp.threads = 1 all runs are alike" in notes
