"""The one `numbisect minimize` that runs live in the quick tests, for all that look at what a run leaves."""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builds.fake_index import FakeIndex, served

ROOT = Path(__file__).resolve().parents[1]
CASE = "softmax_fma"
INTRODUCED = ("2.10.0", "2.11.0")  # the builds between which the case's divergence was introduced


@dataclass(frozen=True)
class LiveRun:
    """path: the run directory. trace: the file of `--trace`. result: what `--json -` printed."""

    path: Path
    trace: Path
    status: int
    result: dict[str, Any]

    @property
    def repro(self) -> Path:
        return self.path / "repro.py"


def builds(folder: Path) -> Path:
    """An index with wheels that are tiny: a repro that imports them ends with the status that is in them."""
    index = FakeIndex(folder)
    for version, status in ((INTRODUCED[0], 0), (INTRODUCED[1], 1), ("2.12.0", 1)):
        index.add(version, init=f"import sys\nfrom . import version\n\nsys.exit({status})\n")
    return index.folder


def live_run(folder: Path) -> LiveRun:
    """The run in this folder; whichever process of the tests is first makes it, the others wait for it."""
    path, trace, printed, ended = (folder / name for name in ("run", "trace.json", "printed", "status"))
    with _locked(folder / "lock"):
        if not ended.exists():
            (folder / "index").mkdir()
            with served(builds(folder / "index")) as url, printed.open("w") as out:
                asked = ["--builds", "2.10..2.12", "--index-url", url, "--as-test", "--json", "-"]
                command = [sys.executable, "-m", "bisector", "minimize", f"repros/{CASE}/case.py", *asked]
                written = ["--out", str(path), "--trace", str(trace)]
                done = subprocess.run([*command, *written], cwd=ROOT, stdout=out, check=False)
            ended.write_text(str(done.returncode))
    text = printed.read_text()
    return LiveRun(path, trace, int(ended.read_text()), json.loads(text) if text else {})


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
