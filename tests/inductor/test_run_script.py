"""What is seen of a script that runs as its user runs it: what it says on stderr, the files that it writes,
and whether it asks that it is compiled."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from bisector import processes, wire
from bisector.core.program import OFF, Mode, PlainOptions, PlainRun
from bisector.explain.script_runs import ROOT, WATCHED, read_run

SAYS = """
import atexit
import json
import logging
import os
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import torch

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
logging.getLogger("a.library").info("of a library's logger, by the script")
print("printed", file=sys.stderr)
sys.stderr.write("written, in two")
sys.stderr.write(" pieces\\n")
warnings.warn("beware")
logging.getLogger("torch.here").warning("of the script all the same")
open("added.txt", "a").write("second\\n")
open("atomic.tmp", "w").write("moved\\n")
os.replace("atomic.tmp", "atomic.txt")
with ThreadPoolExecutor(1) as pool:
    pool.submit(Path("thread.txt").write_text, "by a thread")
with open("lasting.json", "w") as file:
    json.dump({"loss": 0.5}, file)
numpy.save("array.npy", numpy.ones(2))
torch.save({"w": torch.ones(2)}, "weights.pt")
Path("done").mkdir()
Path("done/batch1").touch()
with tempfile.NamedTemporaryFile("w") as file:
    file.write("passing")
atexit.register(lambda: open("late.txt", "w").write("at the end\\n"))

@torch.compile(backend="eager")
def step(x):
    return x + 1 if torch.compiler.is_compiling() else x

print(step(torch.ones(1)).item(), torch.compiler.is_compiling())
sys.exit("gave up")
"""


def run(folder: Path, text: str, **options: bool) -> PlainRun:
    """A run with compilation off."""
    script, events = folder / "script.py", folder / "events.jsonl"
    script.write_text(text)
    told = PlainOptions(
        mode=Mode.EAGER, seed=0, folder=str(folder), values=str(folder), events=str(events),
        root=str(ROOT.parent), **options,
    )  # fmt: skip
    given = json.dumps(wire.dump(told))
    command = [sys.executable, str(WATCHED), given, str(script)]
    own = {**os.environ, **OFF}
    return read_run(events, processes.run(command, 120.0, folder=str(folder), environment=own))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> PlainRun:
    folder = tmp_path_factory.mktemp("says")
    (folder / "added.txt").write_text("first\n")
    return run(folder, SAYS)


def test_what_the_script_itself_says_on_stderr_is_heard(seen: PlainRun) -> None:
    warning, *others = [line for line in seen.said if "beware" in line]
    assert "UserWarning" in warning
    said = [line for line in seen.said if "beware" not in line]
    assert said[:3] == ["INFO of a library's logger, by the script", "printed", "written, in two pieces"]
    assert said[-1] == "gave up", "as the interpreter prints it at the end"
    assert seen.status == 1 and seen.ended is None and len(others) == 1, "the line that warns is quoted"


def test_the_files_that_the_script_writes_are_told_by_what_is_in_them(seen: PlainRun) -> None:
    names = sorted({line.partition(":")[0] for line in seen.wrote})
    assert names == [
        "added.txt", "array.npy", "atomic.txt", "done", "done/batch1", "lasting.json", "late.txt",
        "thread.txt", "weights.pt",
    ]  # fmt: skip
    assert {"atomic.txt: moved", "thread.txt: by a thread"} <= set(seen.wrote)
    assert {"added.txt: second", 'lasting.json: {"loss": 0.5}', "late.txt: at the end"} <= set(seen.wrote)
    assert "added.txt: first" not in seen.wrote, "that was there before"
    assert {"done: is a folder", "done/batch1: is empty"} <= set(seen.wrote)
    [weights] = [line for line in seen.wrote if line.startswith("weights.pt")]
    assert " bytes, sha256 0x" in weights


def test_a_call_that_asks_whether_it_is_compiled_is_told_so_on_demand(seen: PlainRun, tmp_path: Path) -> None:
    assert seen.asked_compiling and seen.printed == ("1.0 False",)
    told = run(tmp_path, SAYS, compiling=True)
    assert told.printed == ("2.0 False",), "outside of a call it is not compiled"


HOOKED = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.inner.register_forward_hook(lambda module, given, out: out * 2)
    def forward(self, x):
        return self.inner(x)
print(list(torch.compile(Net())(torch.ones(1, 2)).shape))
"""


WITHIN = """
import torch
@torch.compile
def inner(x):
    return x + 1
@torch.compile
def outer(x):
    return inner(x) * float(torch.equal(x, x))
print(list(outer(torch.ones(1, 2)).shape))
"""


@pytest.mark.parametrize("script", [HOOKED, WITHIN], ids=["hooks of a module", "what stands for torch's"])
def test_neither_torch_nor_a_stand_in_asks_for_the_program(tmp_path: Path, script: str) -> None:
    seen = run(tmp_path, script)
    assert seen.printed == ("[1, 2]",) and not seen.asked_compiling


def test_what_looks_at_a_call_does_not_ask_for_the_program_whether_it_is_compiled(tmp_path: Path) -> None:
    asks = "import torch\n@torch.compile\ndef f(x):\n    return x + {}\nprint(f(torch.ones(2)))\n"
    assert not run(tmp_path, asks.format("1")).asked_compiling
    assert run(tmp_path, asks.format("torch.compiler.is_compiling()")).asked_compiling
