"""What a build gives, asked in real processes: the interpreter of the tests, with a repro of each kind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bisector.builds.predicate import BuildResult, ask, installed
from bisector.core.outcome import Outcome

HERE = installed()


def told(folder: Path, source: str, timeout_s: float = 20.0, repeat: int = 1) -> BuildResult:
    repro = folder / "repro.py"
    repro.write_text(source)
    return ask(HERE, repro, timeout_s, repeat)


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("", Outcome.PASS),
        ("import sys; sys.exit(0)", Outcome.PASS),
        ("import sys; sys.exit(1)", Outcome.FAIL),
        ("import sys; sys.exit(125)", Outcome.UNRESOLVED),
        ("import sys; sys.exit(7)", Outcome.UNRESOLVED),
        ("raise ImportError('no _C')", Outcome.UNRESOLVED),
        ("import os; os._exit(1)", Outcome.UNRESOLVED),
        ("import os; os.abort()", Outcome.UNRESOLVED),
        ("if", Outcome.UNRESOLVED),
        ("assert 1.0 == 2.0", Outcome.FAIL),
        ("import torch; torch.testing.assert_close(torch.ones(2), torch.zeros(2))", Outcome.FAIL),
        # An assertion of a library, torch's own included, is a crash.
        ("import torch; torch._assert(torch.zeros(1) > 0, 'within torch')", Outcome.UNRESOLVED),
    ],
)
def test_only_the_status_of_a_repro_that_came_to_its_end_counts(
    source: str, outcome: Outcome, tmp_path: Path
) -> None:
    assert told(tmp_path, source).outcome is outcome


def test_why_it_cannot_tell_is_said(tmp_path: Path) -> None:
    assert told(tmp_path, "raise ImportError('no _C')").reason == "ImportError: no _C"
    assert told(tmp_path, "import os; os.abort()").reason.startswith("it ended with signal 6")
    assert told(tmp_path, "import time; time.sleep(60)", 1.0).reason == "no end within 1 s"


def test_what_the_repro_prints_does_not_disturb_the_line(tmp_path: Path) -> None:
    found = told(tmp_path, "print('{}'); import sys; sys.exit(1)")
    assert (found.outcome, found.line["status"]) == (Outcome.FAIL, 1)


@pytest.mark.parametrize(
    "given",
    ["{}\n", "def test_it_agrees_with_eager():\n    {}\n\ntest_it_agrees_with_eager()\n"],
    ids=["a script", "a repro"],
)
def test_inputs_eager_and_compiled_have_a_digest_each(given: str, tmp_path: Path) -> None:
    source = "def inputs():\n    return [1, {'a': 2.0}]\n\n" + given.format("expected, actual = (1,), (2,)")
    line = told(tmp_path, source).line
    assert len({line["inputs"], line["eager"], line["compiled"]}) == 3
    assert told(tmp_path, source).line == line


def test_a_crash_is_asked_again_and_one_that_was_chance_is_forgotten(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    source = f"import os, pathlib, sys\nmark = pathlib.Path({str(mark)!r})\n"
    source += "if not mark.exists():\n    mark.touch()\n    os.abort()\nsys.exit(1)\n"
    assert told(tmp_path, source).outcome is Outcome.FAIL


def test_runs_that_disagree_cannot_tell(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    source = f"import pathlib, sys\nmark = pathlib.Path({str(mark)!r})\nseen = mark.exists()\nmark.touch()\n"
    found = told(tmp_path, source + "sys.exit(1 if seen else 0)\n", repeat=2)
    assert found.outcome is Outcome.UNRESOLVED
    assert found.reason == "2 runs disagree: 1 PASS, 1 FAIL"


def test_each_run_has_an_empty_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (tmp_path / "stale").touch()
    source = "import os, sys\nsys.exit(1 if os.listdir(os.environ['TORCHINDUCTOR_CACHE_DIR']) else 0)\n"
    assert told(tmp_path, source).outcome is Outcome.PASS


def test_a_child_that_a_run_leaves_behind_is_ended(tmp_path: Path) -> None:
    source = "import subprocess, sys, pathlib\n"
    source += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
    source += " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    source += f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
    assert told(tmp_path, source).outcome is Outcome.PASS
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
