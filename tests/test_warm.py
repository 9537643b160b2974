"""The Python of tests that has torch imported ends as a cold one does, and what it starts is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bisector import processes
from tests.warm import warm_modules


def ran(python: str, *arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, **variables},
    )  # fmt: skip


@pytest.mark.live
@pytest.mark.parametrize(
    "code",
    [
        "import sys; print(sys.argv, sys.path[0], __name__)",
        "import os; print(os.environ['PYTEST_NAME'], os.getcwd())",
        "import sys; sys.exit(4)",
        "import sys; sys.exit('said')",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
    ],
)
def test_it_ends_as_a_cold_one(code: str, warm: str, tmp_path: Path) -> None:
    pythons = (sys.executable, warm)
    ended = [ran(p, "-c", code, "an argument", folder=tmp_path, PYTEST_NAME="a value") for p in pythons]
    cold, forked = ((done.returncode, done.stdout, done.stderr.splitlines()[-1:]) for done in ended)
    assert forked == cold


@pytest.mark.live
def test_torch_is_there_before_its_import(warm: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint('torch' in sys.modules)\n")
    modules = warm_modules(Path(warm).parent)
    told = [ran(python, "script.py", folder=tmp_path).stdout for python in (warm, modules)]
    assert told == ["True\n", "False\n"]


@pytest.mark.live
def test_what_ends_with_one_is_not_what_another_asks(warm: str) -> None:
    first = processes.start([warm, "-c", "import time; time.sleep(60)"])
    second = processes.start([warm, "-c", "import time; time.sleep(1); print('ended')"], capture=True)
    first.end()
    assert second.wait(30.0).out == "ended\n"
