"""`minimize --all`: the other calls that diverge, each in a run within the run."""

from __future__ import annotations

from typing import Any

import pytest

from bisector import wire
from bisector.cli import commands
from bisector.core.budget import BudgetSpent
from bisector.core.endings import SecondsSpent
from bisector.core.notes import AlsoDiverges, Relation
from bisector.core.options import Options
from bisector.core.reasons import Message
from bisector.errors import INTERRUPTED, AnotherHead, OutOfTime
from bisector.runner import rundir

CAUSES = ((2, Relation.UNKNOWN), (3, Relation.SAME), (4, Relation.ANOTHER))
OTHERS = [AlsoDiverges(number, "f", Message("output[0] differs"), cause) for number, cause in CAUSES]


@pytest.mark.parametrize(
    ("interrupted", "begun", "status"), [(None, [2, 4], 0), (2, [2], INTERRUPTED), (4, [2, 4], INTERRUPTED)]
)
def test_ctrl_c_ends_all_runs_and_not_the_one_at_hand(
    interrupted: int | None, begun: list[int], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    asked: list[int | None] = []

    def run_pipeline(run: rundir.RunDirectory, options: Options, given: Any) -> int:
        asked.append(options.call)
        assert not options.every
        return INTERRUPTED if options.call == interrupted else 3

    monkeypatch.setattr(commands, "run_pipeline", run_pipeline)
    options = Options("script.py", every=True)
    run = rundir.create("script.py", str(tmp_path / "run"), wire.dump_command(options))
    assert commands._explain_others(run, options, OTHERS, {}, 0) == status
    assert asked == begun


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OutOfTime("script.py ran longer than its 600 s"), "script.py ran longer than its 600 s"),
        (AnotherHead("call-2: another torch"), "call-2: another torch"),
        (BudgetSpent(SecondsSpent(5)), "the budget of 5 s is spent"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_call_that_cannot_be_explained_is_told_and_the_others_still_are(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any
) -> None:
    asked: list[int | None] = []

    def run_pipeline(run: rundir.RunDirectory, options: Options, given: Any) -> int:
        asked.append(options.call)
        if options.call == 2:
            raise error
        return 3

    monkeypatch.setattr(commands, "run_pipeline", run_pipeline)
    options = Options("script.py", every=True)
    run = rundir.create("script.py", str(tmp_path / "run"), wire.dump_command(options))
    assert commands._explain_others(run, options, OTHERS, {}, 0) == 0, "the answer of the first call"
    assert asked == [2, 4]
    assert capsys.readouterr().err == f"numbisect: call 2 is not explained: {told}\n"
