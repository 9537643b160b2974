"""A run keeps the text of its script: its page is the same from another folder, and after an edit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector import wire
from bisector.cli import builds_command, commands, past_runs
from bisector.core.options import Options, Question
from bisector.explain.run import keep_script
from bisector.runner import rundir
from bisector.runner.rundir import RunDirectory
from tests.explain.model import Model, modelled
from tests.report import samples

STUDIED = "studied = 'größer'"
GIVEN: dict[str, Any] = {"verbose": False, "no_color": True}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run that has ended, of a script that is named from the folder where it lies."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("script.py").write_text(f"# coding: latin-1\n{STUDIED}\n", encoding="latin-1")
    made = rundir.create("script.py", None, wire.dump_command(Options("script.py")))
    keep_script(made, Path("script.py"))
    made.write_json(made.result, {**samples.agrees(), "target": "script.py"})
    return made


def edit() -> None:
    Path("script.py").write_text("edited = 1\n")


@pytest.mark.parametrize("happens", ["edited", "gone", "elsewhere", "another there"])
def test_the_page_of_a_run_shows_the_script_that_was_studied(
    happens: str, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    if happens in ("elsewhere", "another there"):
        (tmp_path / "there").mkdir()
        monkeypatch.chdir(tmp_path / "there")
    if happens in ("edited", "another there"):
        Path("script.py").write_text("edited = 1\n")
    if happens == "gone":
        Path("script.py").unlink()
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    past_runs.show(str(run.path))
    past_runs.report(str(run.path), "html", GIVEN)
    for page in (run.page.read_text(encoding="utf-8"), capsys.readouterr().out):
        assert "größer" in page and "edited = 1" not in page


def test_a_session_keeps_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with modelled(Model(4, (), lambda allowed, calls: False), tmp_path, monkeypatch) as session:
        assert session.run.script_text() == "x.sin()\n"


def test_the_search_over_builds_keeps_its_script(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[str | None] = []
    monkeypatch.setattr(builds_command, "run", lambda folder, *more: found.append(folder.script_text()))
    monkeypatch.setattr(builds_command, "written", lambda *given: SimpleNamespace(exit_status=0))
    asked = Question("script.py", None, "2.13")
    given = {"quiet": True, "verbose": False, "no_color": True}
    run = rundir.create("script.py", str(tmp_path / "b"), wire.dump_command(asked))
    builds_command.search(run, asked, given)
    assert found == [run.script_text()]


def test_a_run_that_starts_over_keeps_the_script_anew(run: RunDirectory) -> None:
    edit()
    keep_script(run, Path("script.py"))
    assert STUDIED in (run.script_text() or ""), "one that goes on is about the script as it was"
    run.start_over()
    keep_script(run, Path("script.py"))
    assert run.script_text() == "edited = 1\n"


def test_the_folder_of_a_run_that_got_nowhere_is_used_again_with_another_script(run: RunDirectory) -> None:
    run.result.unlink()
    edit()
    again = rundir.create("script.py", str(run.path), {})
    keep_script(again, Path("script.py"))
    assert again.script_text() == "edited = 1\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"# coding: nothing\n"])
def test_a_script_that_python_cannot_read_is_left_to_python(content: bytes, run: RunDirectory) -> None:
    run.start_over()
    Path("script.py").write_bytes(content)
    keep_script(run, Path("script.py"))
    keep_script(run, Path("."))
    assert run.script_text() is None


def test_a_run_that_is_gone_on_with_from_another_folder_finds_its_script(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path.cwd()
    run.write_json(run.options, wire.dump_command(Options("script.py", folder=str(here))))
    found: list[str] = []
    monkeypatch.setattr(
        "bisector.cli.commands.run_pipeline",
        lambda run, options, given: found.append(options.target) or 0,
    )
    given = {"again": False, "budget": None}
    commands.resume(str(run.path), given)
    monkeypatch.chdir(tmp_path)
    commands.resume(str(run.path), given)
    assert found == ["script.py", str(here / "script.py")]
