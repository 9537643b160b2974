"""Which file the script's own runs are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisector.core.bundle_layout import CASE, DESCRIPTION
from bisector.core.program import Mode
from bisector.explain import script_runs
from bisector.explain.run import Session
from bisector.report.reasons import words
from bisector.runner.rundir import RunDirectory
from tests.explain.model import Model, modelled


class Begun(Exception):
    """In the place of the process."""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    """The file that a plain run of a target is of."""

    def start(command: list[str], **options: Any) -> None:
        raise Begun(command[-1])

    def run_file(target: Path) -> str:
        with modelled(Model(1, (), lambda allowed, calls: True), tmp_path, monkeypatch) as known:
            run = RunDirectory(tmp_path / "of-target")
            run.path.mkdir()
            options = replace(known.options, target=str(target))
            session = Session(run, options, lambda stage, text: None, words)
            monkeypatch.setattr(script_runs.processes, "start", start)
            with pytest.raises(Begun) as begun:
                session.script_runs.run(session.script_runs.asked(Mode.EAGER))
            session.close()
        return str(begun.value)

    return run_file


def test_of_a_folder_that_is_named_the_file_in_it_is_run(
    tmp_path: Path, run_file: Callable[[Path], str]
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name in (CASE, DESCRIPTION):
        (bundle / name).write_text("{}")
    assert run_file(bundle) == str(bundle / CASE)


def test_a_script_is_run_by_its_own_name(tmp_path: Path, run_file: Callable[[Path], str]) -> None:
    (tmp_path / "case.py").write_text("pass\n")
    assert run_file(tmp_path / "case.py") == str(tmp_path / "case.py")
