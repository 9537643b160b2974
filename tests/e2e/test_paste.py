"""Every fix that a report prints is run exactly as printed, in plain torch around the script."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bisector.core.fix_source import (
    PASSES,
    PER_GRAPH,
    DisablePasses,
    FallBack,
    SetFlags,
    UseBackend,
    paste_lines,
)

pytest.importorskip("torch")
PROGRAM = """
def weights(x):
    return x.half().float() * 3

torch.manual_seed(0)
x = torch.randn(64)
with patch:
    actual = torch.compile(weights, backend=backend, options=options)(x)
torch.testing.assert_close(actual, weights(x))
"""
NOTHING = 'import contextlib; patch, options, backend = contextlib.nullcontext(), None, "inductor"'
TARGET = f"import torch\n{NOTHING}\n{PROGRAM}"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the text report prints under its fixes."""
    folder = tmp_path_factory.mktemp("paste")
    (folder / "script.py").write_text(TARGET)
    command = [sys.executable, "-m", "bisector", "flags", "script.py", "--out", "run", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "run" / "result.json").read_text())
    told = [line for fix in result["fixes"] for line in fix["paste"]]
    printed = [line.removeprefix(" " * 7) for line in done.stdout.splitlines()]
    assert set(told) <= set(printed)
    return told


# Runs the program of each folder in a fork; this process itself opens no parallel region.
WARM = """
import os, runpy, sys, traceback
import torch, torch._dynamo, torch._inductor.compile_fx

children = []
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        said = os.open("said", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 2)
        status = 0
        try:
            runpy.run_path("pasted.py", run_name="__main__")
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stderr.flush()
        os._exit(status)
    children.append(child)
    if len(children) > 1:
        os.waitpid(children.pop(0), 0)
for child in children:
    os.waitpid(child, 0)
"""


def written(folder: Path, line: str, program: str) -> Path:
    """The program with the line where it belongs: a shell's before it, Python's before the compile."""
    folder.mkdir()
    python = NOTHING if line.startswith("export ") else f"{NOTHING}\n{line}"
    (folder / "pasted.py").write_text(f"import torch\n{python}\n{program}\nopen('ended', 'w')\n")
    return folder


def failing(folder: Path, lines: list[str], program: str = PROGRAM) -> dict[str, str]:
    """The lines with which the program ends in an error, and what it says. A shell's line has a process of
    its own; the others share one that has torch imported."""
    folders = {line: written(folder / str(i), line, program) for i, line in enumerate(lines)}
    shells = [line for line in lines if line.startswith("export ")]
    warm = [str(folders[line]) for line in lines if line not in shells]
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(runs, ["-c", WARM, *warm], folder)] if warm else []
        started += [pool.submit(runs, ["pasted.py"], folders[line], line) for line in shells]
        for done in started:
            done.result()
    failed = {line: place for line, place in folders.items() if not (place / "ended").exists()}
    return {line: (place / "said").read_text() for line, place in failed.items()}


def runs(arguments: list[str], folder: Path, line: str = "true") -> None:
    """Python, after the line of a shell; what it says on stderr is kept beside the program."""
    command = f"{line}\n{shlex.join([sys.executable, *arguments])} 2> said"
    subprocess.run(["bash", "-c", command], check=False, cwd=folder)


@pytest.mark.live
def test_without_a_fix_the_script_fails(tmp_path: Path) -> None:
    assert "Tensor-likes are not close" in failing(tmp_path, ["pass"])["pass"]


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
def test_each_line_that_is_printed_repairs_the_script(tmp_path: Path, lines: list[str]) -> None:
    assert failing(tmp_path, lines) == {}


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
def test_every_line_that_is_printed_for_a_change_makes_it(tmp_path: Path, name: str) -> None:
    made, program = CHANGES[name]
    lines = paste_lines(made, variables=VARIABLES)
    assert lines
    assert set(failing(tmp_path, ["pass", *lines], program)) == {"pass"}
