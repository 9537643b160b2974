"""Every fix that a report prints is run exactly as printed, in plain torch around the script."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bisector.core.fix import PASSES, DisablePasses, FallBack, SetFlags, UseBackend
from bisector.core.fix_source import PER_GRAPH, paste_lines
from tests.command import numbisect
from tests.replay.recording import read, replayed
from tests.replay.runs import PASTED, RUNS
from tests.scripts.pasted import NOTHING, PROGRAM, TARGET

pytest.importorskip("torch")


def printed_under_fixes(result: dict[str, Any], printed: str) -> list[str]:
    """What the text report prints under its fixes."""
    told = [line for fix in result["fixes"] for line in fix["paste"]]
    assert set(told) <= {line.removeprefix(" " * 7) for line in printed.splitlines()}
    return told


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, warm_workers: None) -> list[str]:
    """Those of a run that is made here."""
    folder = tmp_path_factory.mktemp("paste")
    (folder / "script.py").write_text(TARGET)
    done = numbisect("flags", "script.py", "--out", "run", "-q", folder=folder)
    assert done.returncode == 0, done.stderr
    return printed_under_fixes(json.loads((folder / "run" / "result.json").read_text()), done.stdout)


@pytest.fixture(scope="module")
def recorded_lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Those of the recorded run of the same script."""
    folder = tmp_path_factory.mktemp("recorded") / "work"
    ended = replayed(RUNS[PASTED], read(PASTED), folder)
    return printed_under_fixes(ended.result, ended.printed)


def written(folder: Path, line: str, program: str) -> Path:
    """The program with the line where it belongs: a shell's before it, Python's before the compile."""
    folder.mkdir()
    python = NOTHING if line.startswith("export ") else f"{NOTHING}\n{line}"
    (folder / "pasted.py").write_text(f"import torch\n{python}\n{program}\nopen('ended', 'w')\n")
    return folder


Failing = Callable[..., dict[str, str]]


@pytest.fixture
def failing(tmp_path: Path, warm: str) -> Failing:
    """The lines with which a program ends in an error, and what it says. The line of a shell is read before
    torch is imported, so its program is run by a cold Python."""

    def failing(lines: list[str], program: str = PROGRAM) -> dict[str, str]:
        folders = {line: written(tmp_path / str(i), line, program) for i, line in enumerate(lines)}

        def run(line: str) -> str:
            python, before = (sys.executable, line) if line.startswith("export ") else (warm, "true")
            command = ["bash", "-c", f"{before}\n{shlex.join([python, 'pasted.py'])}"]
            return subprocess.run(
                command, check=False, cwd=folders[line], stderr=subprocess.PIPE, text=True
            ).stderr

        with ThreadPoolExecutor(2) as pool:
            said = dict(zip(lines, pool.map(run, lines), strict=True))
        return {line: said[line] for line in lines if not (folders[line] / "ended").exists()}

    return failing


@pytest.mark.live
def test_without_a_fix_the_script_fails(failing: Failing) -> None:
    assert "Tensor-likes are not close" in failing(["pass"])["pass"]


def test_each_kind_of_line_is_printed(lines: list[str]) -> None:
    kinds = {line.partition(" = ")[0] if " = " in line else line.partition("=")[0] for line in lines}
    assert {
        "torch._inductor.config.emulate_precision_casts",
        "options",
        "patch",
        "export TORCHINDUCTOR_EMULATE_PRECISION_CASTS",
        "export TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS",
    } <= kinds


@pytest.mark.live
def test_each_line_that_is_printed_repairs_the_script(failing: Failing, recorded_lines: list[str]) -> None:
    assert failing(recorded_lines) == {}


SHIFT = """
def f(x):
    x[1:] = x[:-1].clone()
    return x

x = torch.rand(8, 16)
eager = f(x.clone())
with patch:
    actual = torch.compile(f, backend=backend, options=options)(x)
assert torch.equal(actual, eager)
"""
CODE = """
from torch._inductor.utils import run_and_get_code
with patch:
    _, code = run_and_get_code(torch.compile(lambda x: {} + 1, options=options), torch.rand(64))
assert "".join(code).count("{}") >= {}
"""
# Every kind of change that has lines, and a program that is well only where the change is made.
CHANGES = {
    "pass": (DisablePasses(("reinplace_inplaceable_ops",)), SHIFT),
    "backend": (UseBackend("aot_eager"), SHIFT),
    "lowering": (
        FallBack(("aten.erf",)),
        CODE.format("torch.erf(x)", "aten.erf.default(", 1),
    ),
    "decomposition": (
        FallBack(("aten.silu",), decomposed=True),
        CODE.format("torch.nn.functional.silu(x)", "aten.silu.default(", 1),
    ),
    "two flags": (
        SetFlags({"inductor.max_fusion_size": 1, "inductor.fallback_random": True}),
        CODE.format("torch.rand_like(x)", "torch.ops.aten.rand", 1),
    ),
    "functorch": (SetFlags({"functorch.cse": False}), "assert not torch._functorch.config.cse"),
    "backends": (
        SetFlags({"backends.mkldnn.enabled": False}),
        "assert not torch.backends.mkldnn.enabled",
    ),
    "environment": (
        SetFlags({"env.ATEN_CPU_CAPABILITY": "default"}),
        "assert torch.backends.cpu.get_cpu_capability() == 'DEFAULT'",
    ),
}
VARIABLES = {PASSES: "TORCHINDUCTOR_DISABLED_PASSES", PER_GRAPH: "TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS"}


COMPILING = ("pass", "backend", "lowering", "decomposition", "two flags")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.live] if name in COMPILING else []) for name in CHANGES]
)
def test_every_line_that_is_printed_for_a_change_makes_it(failing: Failing, name: str) -> None:
    made, program = CHANGES[name]
    lines = paste_lines(made, variables=VARIABLES)
    assert lines
    assert set(failing(["pass", *lines], program)) == {"pass"}
