"""The run directory: one folder for one run, and a line for the user where there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bisector.errors import BadOption, BadTarget
from bisector.runner import rundir
from bisector.runner.journal import Journal


def test_a_run_keeps_the_options_that_resume_needs(tmp_path: Path) -> None:
    run = rundir.create("model.py", str(tmp_path / "out"), {"target": "model.py", "jobs": 2})
    again, options = rundir.reopen(str(tmp_path / "out"))
    assert again == run
    assert options == {"target": "model.py", "jobs": 2}


def test_runs_without_a_name_are_numbered_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [rundir.create("some/model.py", None, {}).path for _ in range(3)]
    assert [str(p.relative_to(tmp_path.resolve())) for p in paths] == [
        f"numbisect-runs/model-{n}" for n in (1, 2, 3)
    ]


def test_a_run_that_was_faster_with_a_name_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run makes the folder between the look and the making: the look must not be what decides."""
    monkeypatch.chdir(tmp_path)
    make = Path.mkdir

    def beaten(self: Path, *args: object, **kwargs: object) -> None:
        if self.name == "model-1" and not self.exists():
            os.mkdir(self)
        make(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", beaten)
    assert rundir.create("model.py", None, {}).path.name == "model-2"


def test_a_folder_with_something_in_it_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadOption, match=r"not empty.*numbisect resume"):
        rundir.create("model.py", str(tmp_path), {})
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_that_is_there_already_is_taken(tmp_path: Path) -> None:
    assert rundir.create("model.py", str(tmp_path), {}).path == tmp_path.resolve()


@pytest.mark.parametrize("out", ["file/below", "file"])
def test_a_place_that_cannot_be_a_folder_is_a_line_for_the_user(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="name a folder you can write with --out") as raised:
        rundir.create("model.py", str(tmp_path / out), {})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [None, "", "{", "\x00"])
def test_a_folder_without_a_run_cannot_be_reopened(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "options.json").write_text(content)
    with pytest.raises(BadTarget, match="no run of numbisect here"):
        rundir.reopen(str(tmp_path))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    run = rundir.create("model.py", str(tmp_path), {})
    run.write_json(run.result, {"schema_version": 1})
    with pytest.raises(ValueError, match="Out of range"):
        run.write_json(run.result, {"max_abs": float("inf")})
    assert json.loads(run.result.read_text()) == {"schema_version": 1}


def test_the_folder_of_a_run_that_got_nowhere_can_be_used_again(tmp_path: Path) -> None:
    first = rundir.create("case.py", str(tmp_path / "run"), {"n": 1})
    first.journal.write_text("")
    first.log.write_text("a line\n")
    again = rundir.create("case.py", str(tmp_path / "run"), {"n": 2})
    assert json.loads(again.options.read_text()) == {"n": 2}


def test_the_folder_of_a_run_with_an_answer_is_kept(tmp_path: Path) -> None:
    first = rundir.create("case.py", str(tmp_path / "run"), {})
    first.journal.write_text('{"event": "done", "key": "k", "answer": {}}\n')
    with pytest.raises(BadOption, match="resume"):
        rundir.create("case.py", str(tmp_path / "run"), {})


def test_a_run_within_a_run_goes_on_and_ends_with_the_run_that_starts_over(tmp_path: Path) -> None:
    run = rundir.create("model.py", str(tmp_path / "out"), {"target": "model.py"})
    inner = rundir.within(run, 3, {"call": 3})
    assert inner.path == run.path / "call-3"
    inner.journal.write_text("{}\n")
    assert rundir.within(run, 3, {"call": 3}).journal.exists()
    (run.path / "call-of-the-user").mkdir()
    run.start_over()
    assert [p.name for p in run.path.iterdir() if p.is_dir()] == ["call-of-the-user"]


def test_a_run_that_goes_on_is_not_started_over(tmp_path: Path) -> None:
    run = rundir.create("case.py", str(tmp_path / "run"), {})
    journal = Journal(run.journal)
    for again in (run.start_over, lambda: rundir.create("case.py", str(run.path), {})):
        with pytest.raises(BadTarget, match="another numbisect is at work in this run"):
            again()
    journal.started("a", {})
    journal.close()
    assert run.journal.read_text().count('"start"') == 1
    run.start_over()
    assert not run.journal.exists()
