"""The worked cases from their recordings: what is known of them, what is shipped, and bent histories."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.messages import Reply
from bisector.core.protocol import Record, RunProbe
from bisector.core.recorded import Recorded
from bisector.explain import pipeline
from bisector.report import markdown, sections, terminal
from bisector.report.document_json import from_json
from tests.known import KNOWN, TOLD

from .__main__ import COST, SHIPPED
from .recording import (
    NOT_RECORDED,
    ROOT,
    Ended,
    OutOfDate,
    Recording,
    Replay,
    Told,
    confirmed,
    ran,
    read,
    replayed,
)
from .runs import RUNS

ReplayOf = Callable[[str], Ended]


@pytest.mark.parametrize("case", KNOWN)
def test_a_worked_case_ends_with_what_is_known_of_it(case: str, replay_of: ReplayOf) -> None:
    result = json.loads((replay_of(case).run / "result.json").read_text())
    report = sections.report(from_json(result))
    assert terminal.render(report, 100, False) and markdown.render(report)
    for known in TOLD:
        known(case, result)
    assert result["neighbour"]["differs_by"].startswith(("disabling ", "with ", "without "))


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("case", KNOWN)
def test_what_is_shipped_with_a_case_is_what_the_program_writes_now(
    case: str, name: str, replay_of: ReplayOf
) -> None:
    written = (replay_of(case).run / name).read_text()
    assert _without_cost(written) == _without_cost((ROOT / "repros" / case / name).read_text())


def _without_cost(text: str) -> list[str]:
    """How many probes a run took, how long, and which version of ours made it is its own."""
    own = (COST, "numbisect: ")
    return [line for line in text.splitlines() if not line.startswith(own)]


def is_probe_of_the_second(told: Told) -> bool:
    return told.asker == "confirm" and told.job == RunProbe.job


def confirmed_in(result: dict[str, Any]) -> list[list[str]]:
    return confirmed([*result["repairs"], *result["causes"]])


@pytest.mark.parametrize("case", KNOWN)
def test_a_second_worker_that_fails_confirms_no_decision(case: str, tmp_path: Path) -> None:
    def change(told: Told) -> Any:
        return {"failed": "timeout after 60 s"} if is_probe_of_the_second(told) else told.answer

    assert confirmed_in(read(case).result)
    result = bent(case, tmp_path, change)
    assert confirmed_in(result) == []
    assert any("not confirmed in a second process: timeout after 60 s" in n for n in result["text_notes"])


@pytest.mark.parametrize("case", KNOWN)
def test_a_second_worker_that_sees_no_difference_confirms_no_decision(case: str, tmp_path: Path) -> None:
    def change(told: Told) -> Any:
        if not is_probe_of_the_second(told):
            return told.answer
        return told.answer | {"outputs": [_equal(o) for o in told.answer["outputs"]]}

    result = bent(case, tmp_path, change)
    assert confirmed_in(result) == []
    assert result["confirmation"]["default"] == "PASS"


def _equal(output: dict[str, Any]) -> dict[str, Any]:
    kept = ("index", "path", "dtype", "shape", "numel", "scale")
    return {name: value for name, value in output.items() if name in kept}


def bent(case: str, tmp_path: Path, change: Callable[[Told], Any]) -> dict[str, Any]:
    """The result of a history that was changed in the second worker. What is asked after it may differ from
    what was recorded: such a question is answered as one that failed; the script is not run."""
    recording = read(case)
    [hello, *_] = [told.answer for told in recording.answers if told.job == Record.job]
    with pytest.MonkeyPatch.context() as patch, Replay(recording.answers, Failing, change).installed():
        patch.setattr(pipeline, "is_a_script", lambda session, hello: False)
        patch.setattr(Failing, "hello", wire.load(Recorded, hello), raising=False)
        return ran(RUNS[case], tmp_path / "work").result


class Failing:
    """A worker that can do nothing."""

    hello: Recorded

    def __init__(self, options: Any, spare: Any = None) -> None:
        pass

    def take_spare(self, options: Any) -> None:
        """It forks nothing."""

    def wait_until_ready(self, *limits: Any) -> Recorded:
        return self.hello

    def ask(self, requests: Sequence[Any], *given: Any) -> None:
        done = given[2]
        for index in range(len(requests)):
            given[3](index)
            done(index, Reply(index, error="not recorded"))

    def close(self) -> None:
        pass


STRIDES = "form-strides-alone"


def of_strides(answers: tuple[Told, ...], tmp_path: Path) -> Ended:
    before = read(STRIDES)
    return replayed(RUNS[STRIDES], Recording(answers, before.status, before.results), tmp_path / "work")


@pytest.mark.parametrize("job", ["hello", "verdict"])
def test_a_recording_without_an_answer_that_is_asked_is_out_of_date(job: str, tmp_path: Path) -> None:
    without = tuple(told for told in read(STRIDES).answers if told.job != job)
    with pytest.raises(OutOfDate, match=NOT_RECORDED):
        of_strides(without, tmp_path)


def test_a_recording_with_an_answer_that_nobody_asks_is_out_of_date(tmp_path: Path) -> None:
    more = (*read(STRIDES).answers, Told("", "another", "", "probe", {}))
    with pytest.raises(OutOfDate, match="1 recorded answers are not asked any more"):
        of_strides(more, tmp_path)
