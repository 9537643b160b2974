"""Commits over the real torch: a repository made of the installed package's own Python files and headers."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.builds.repository import Sources

SITE = Path(str(metadata.distribution("torch").locate_file("")))
GENERATED = {"torch/version.py", "torch/testing/_internal/generated/annotated_fn_args.py"}
HEADERS = [f"ATen/cpu/vec/vec{width}/vec{width}_float.h" for width in (256, 512)]
VEC = {f"aten/src/{header}": f"torch/include/{header}" for header in HEADERS}

# Compiled against eager, within what rounding moves.
REPRO = """
import sys
import torch


def fn(x):
    return torch.sigmoid(x), torch.abs(x)


def inputs():
    return [torch.linspace(-4, 4, 64)]


expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
sys.exit(0 if all(torch.allclose(a, e, rtol=1e-5) for a, e in zip(actual, expected)) else 1)
"""
NEEDED = "import torch._export.serde.schema as export_schema"
SIGMOID = ("(decltype({x})(1) + {x}.neg().exp())", "(decltype({x})(1.001) + {x}.neg().exp())")
ABS = "  Vectorized<float> abs() const {\n"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """32 commits, of which the 15th needs a binary that is not there until the 17th takes it back, and the
    21st changes numbers; then 8, of which the 5th changes a header alone."""
    made = Sources(tmp_path_factory.mktemp("pytorch"))
    for package in ("torch", "torchgen", "functorch"):
        for file in (SITE / package).rglob("*.py"):
            name = file.relative_to(SITE).as_posix()
            if name not in GENERATED and "/include/" not in name:
                _copy(file, made.folder / name)
    for source, place in VEC.items():
        _copy(SITE / place, made.folder / source)
    made.commit("base", {})
    draw = random.Random(1)
    touched = [f"torch/_inductor/{f.name}" for f in sorted((SITE / "torch/_inductor").glob("*.py"))]
    for number in range(1, 41):
        made.commit(f"commit {number} (#{number})", _edits(made, number, draw.choice(touched)))
    return made


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def _edits(made: Sources, number: int, touched: str) -> dict[str, str | None]:
    ir, cpp = "torch/_inductor/ir.py", "torch/_inductor/codegen/cpp.py"
    broken = f"from torch._C import _symbol_of_a_later_binary  # noqa: F401\n{NEEDED}"
    changed = {
        15: lambda: {ir: _replaced(made, ir, NEEDED, broken)},
        17: lambda: {ir: _replaced(made, ir, broken, NEEDED)},
        21: lambda: {cpp: _replaced(made, cpp, *SIGMOID)},
        32: lambda: {cpp: _replaced(made, cpp, *reversed(SIGMOID))},
        37: lambda: {name: _replaced(made, name, ABS, ABS + "    return *this;\n") for name in VEC},
    }
    if number in changed:
        return dict(changed[number]())
    return {touched: (made.folder / touched).read_text() + f"\n# commit {number}\n"}


def _replaced(made: Sources, name: str, old: str, new: str) -> str:
    text = (made.folder / name).read_text()
    assert old in text, f"this torch writes {name} in another way"
    return text.replace(old, new)


def bisected(sources: Sources, folder: Path, good: int, bad: int) -> dict[str, Any]:
    repro = folder / "repro.py"
    repro.write_text(REPRO)
    options = {
        "--pytorch-repo": sources.folder,
        "--good": sources.commits[good],
        "--bad": sources.commits[bad],
        "--out": folder / "run",
        "--json": "-",
    }
    arguments = [str(part) for option in options.items() for part in option]
    command = [sys.executable, "-m", "bisector", "builds", str(repro), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["builds"]
    return found


def test_the_commit_that_changed_numbers_is_named_past_those_that_need_another_binary(
    sources: Sources, tmp_path: Path
) -> None:
    found = bisected(sources, tmp_path, 0, 31)
    assert (found["answer"], found["confirmed"]) == ("exact commit", True)
    assert found["after"]["commit"] == sources.commits[21]
    assert found["moved"] == ["compiled"]
    assert [commit["pull"] for commit in found["commits"]] == [21]
    assert len(found["tried"]) <= 2 + 9  # the ends, and nine steps


def test_a_commit_that_changed_a_header_alone_is_named(sources: Sources, tmp_path: Path) -> None:
    found = bisected(sources, tmp_path, 32, 40)
    assert (found["answer"], found["after"]["commit"]) == ("exact commit", sources.commits[37])
