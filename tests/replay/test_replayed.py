"""The worked cases again from their journals: real histories in a second, and what comes of bent ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.messages import Reply
from bisector.core.protocol import Record, RunProbe
from bisector.core.recorded import Recorded
from bisector.report import markdown, sections, terminal
from bisector.runner import lab
from bisector.runner.rundir import RunDirectory
from bisector.session import environment, pipeline
from bisector.session.output import as_markdown
from tests.known import TOLD
from tests.replay.recording import CASES, Recording, Said, read, replay, shipped, told


class NoWorker:
    """Stands where a worker would be started: a replay asks nothing that was not recorded."""

    def __init__(self, options: Any) -> None:
        raise AssertionError("the journal does not have an answer; `just record` makes the recordings again")


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(lab, "Worker", NoWorker)
    return str(request.param)


@pytest.fixture
def recording(case: str, monkeypatch: pytest.MonkeyPatch) -> Recording:
    found = read(case)
    monkeypatch.setattr(environment, "describe", lambda machine: found.environment)
    return found


def test_a_recorded_run_gives_its_answer_again(recording: Recording, case: str, tmp_path: Path) -> None:
    result = replay(recording, case, tmp_path / "run")
    assert told(result) == recording.result
    report = sections.report(result)
    assert terminal.render(report, 100, False) and markdown.render(report)
    for known in TOLD:
        known(case, result)
    assert result["neighbour"]["differs_by"].startswith(("disabling ", "with ", "without "))


def test_what_is_shipped_with_a_case_is_what_the_program_writes_now(
    recording: Recording, case: str, tmp_path: Path
) -> None:
    result = replay(recording, case, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    assert run.repro_text() == shipped(case, "repro.py").read_text()
    report = as_markdown(run, result)
    assert _without_cost(report) == _without_cost(shipped(case, "report.md").read_text())


def _without_cost(report: str) -> list[str]:
    """How many probes a run took, and how long, is its own."""
    lines = report.splitlines()
    kept = [line for line in lines if not line.startswith("Found by numbisect with ")]
    assert len(kept) == len(lines) - 1
    return kept


def is_probe_of_the_second(recorded: Said) -> bool:
    return recorded.asker == "confirm" and recorded.job == RunProbe.job


def confirmed(result: dict[str, Any]) -> list[list[str]]:
    found = [*result["repairs"], *result["causes"]]
    return [one["decisions"] for one in found if one["confirmed"]]


def test_a_second_worker_that_fails_confirms_no_decision(
    recording: Recording, case: str, tmp_path: Path
) -> None:
    def change(recorded: Said) -> Any:
        return {"failed": "timeout after 60 s"} if is_probe_of_the_second(recorded) else recorded.answer

    assert confirmed(recording.result)
    result = bent(recording, case, tmp_path, change)
    assert confirmed(result) == []
    assert any("not confirmed in a second process: timeout after 60 s" in n for n in result["text_notes"])


def test_a_second_worker_that_sees_no_difference_confirms_no_decision(
    recording: Recording, case: str, tmp_path: Path
) -> None:
    def change(recorded: Said) -> Any:
        if not is_probe_of_the_second(recorded):
            return recorded.answer
        return recorded.answer | {"outputs": [_equal(o) for o in recorded.answer["outputs"]]}

    result = bent(recording, case, tmp_path, change)
    assert confirmed(result) == []
    assert result["confirmation"]["default"] == "PASS"


def _equal(output: dict[str, Any]) -> dict[str, Any]:
    kept = ("index", "path", "dtype", "shape", "numel", "scale")
    return {name: value for name, value in output.items() if name in kept}


def bent(recording: Recording, case: str, tmp_path: Path, change: Any) -> dict[str, Any]:
    """The result of a history that was changed in the second worker. What is asked after it may differ from
    what was recorded: such a question is answered as one that failed; the script is not run."""
    [hello, *_] = [r.answer for r in recording.answers if r.job == Record.job]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "Worker", Failing)
        patch.setattr(pipeline, "is_a_script", lambda session, hello: False)
        patch.setattr(Failing, "hello", wire.load(Recorded, hello), raising=False)
        return replay(recording, case, tmp_path / "run", change)


class Failing:
    """A worker that can do nothing."""

    hello: Recorded

    def __init__(self, options: Any) -> None:
        pass

    def wait_until_ready(self, *limits: Any) -> Recorded:
        return self.hello

    def ask(self, requests: Sequence[Any], *given: Any) -> None:
        done = given[2]
        for index in range(len(requests)):
            given[3](index)
            done(index, Reply(index, error="not recorded"))

    def close(self) -> None:
        pass
