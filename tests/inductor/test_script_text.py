"""A script is read as Python reads it, whatever its encoding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bisector.builds import driver
from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.protocol import ScriptSpec
from bisector.explain import script_repro
from bisector.explain.run import keep_script
from bisector.inductor.main_module import execute
from bisector.runner.rundir import RunDirectory
from bisector.subject.targets import source_of

SAID = "größer"
SOURCES = {
    "utf-8": f"said = '{SAID}'\n".encode(),
    "a byte order mark": f"said = '{SAID}'\n".encode("utf-8-sig"),
    "a cookie": f"# -*- coding: latin-1 -*-\nsaid = '{SAID}'\n".encode("latin-1"),
    "lines of Windows": f"# here\r\nsaid = '{SAID}'\r\n".encode(),
}


@pytest.fixture(params=SOURCES)
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_bytes(SOURCES[request.param])
    done = subprocess.run([sys.executable, "-c", f"exec(open({str(path)!r}, 'rb').read())"], check=False)
    assert done.returncode == 0, "Python runs it"
    return path


@pytest.fixture
def main_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a script's `__main__` is in the end; this process's own comes back."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(sys, "argv", ["test"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    return lambda: sys.modules["__main__"]


def test_a_script_is_executed_in_its_own_encoding_and_stays(script: Path, main_module: Any) -> None:
    assert execute(str(script))["said"] == SAID
    assert main_module().said == SAID


def test_a_script_is_left_to_python_at_the_line_that_python_counts(tmp_path: Path, main_module: Any) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(b"\xef\xbb\xbfpage = '\x0c'\r\n\r\ndef f():\r\n    pass\r\n")
    execute(str(script), (3,))
    assert main_module().f._torchdynamo_disable


def test_a_build_runs_a_script_in_its_own_encoding(script: Path) -> None:
    command = [sys.executable, str(driver.__file__), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout)["status"], json.loads(done.stdout)["error"]) == (0, None)


def test_a_repro_holds_the_script_as_python_reads_it(script: Path) -> None:
    spec = ScriptSpec((), (), Criterion(), None, None, "")
    text = script_repro.text(script_repro.Source(str(script)), WHOLE, spec)
    assert f"said = '{SAID}'\n" in text and "\ufeff" not in text


def test_the_text_of_a_script_is_what_python_reads(script: Path) -> None:
    assert source_of(script).endswith(f"said = '{SAID}'\n") and "\ufeff" not in source_of(script)


def test_a_run_keeps_the_script_as_python_reads_it(script: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    keep_script(run, script)
    assert run.script_text() == source_of(script)


def test_the_annotations_of_a_script_are_values_as_under_python(tmp_path: Path, main_module: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text("def f(x: int) -> float: ...\n")
    assert execute(str(script))["f"].__annotations__ == {"x": int, "return": float}


def test_modules_are_found_beside_a_script_that_is_named_by_a_link(tmp_path: Path, main_module: Any) -> None:
    for name, text in (("script.py", "import beside_it\n"), ("beside_it.py", "")):
        (tmp_path / name).write_text(text)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "script.py").symlink_to(tmp_path / "script.py")
    assert "beside_it" in execute(str(tmp_path / "links" / "script.py"))
