"""`numbisect check` on scripts whose divergence no single captured call shows, or that end in their own ways.

Whatever a script says of itself: where it diverges as its user runs it, the answer is never that it agrees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bisector import processes

from .forms import FORMS, Form
from .raising import RAISING, Raising


def written(script: str, folder: Path) -> None:
    lines = script.strip("\n").splitlines()
    (folder / "script.py").write_text("\n".join(line[8:] for line in lines) + "\n")


def ran(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        processes.module("bisector", command, "script.py", "--out", "run", "--json", "-", "-q"),
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def checked(script: str, folder: Path) -> tuple[int, dict[str, Any]]:
    written(script, folder)
    done = ran("check", folder)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def minimized(script: str, folder: Path, status: int = 0) -> dict[str, Any]:
    written(script, folder)
    done = ran("minimize", folder)
    assert done.returncode == status, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def repro_ends(folder: Path, run: str = "run") -> list[int]:
    """The exit statuses of the repro, plain and with --fixed."""
    repro = [sys.executable, str(folder / run / "repro.py")]
    both = (repro, [*repro, "--fixed"])
    return [subprocess.run(command, check=False, capture_output=True).returncode for command in both]


@pytest.mark.parametrize(
    "form",
    [pytest.param(f, id=title, marks=[pytest.mark.slow] if f.slow else []) for title, f in FORMS.items()],
)
def test_what_the_script_shows_is_what_is_said(form: Form, tmp_path: Path) -> None:
    status, result = checked(form.script, tmp_path)
    verdict = result["verdict"]
    assert form.said in verdict["reason"]
    assert status == form.status
    assert form.kind in (None, verdict["class"])
    if form.backend is not None:
        assert verdict["first_bad_backend"] == form.backend


def test_what_lies_in_the_working_directory_stands_for_nothing_of_pythons_or_ours(tmp_path: Path) -> None:
    (tmp_path / "unittest.py").write_text("raise ImportError('not the one')\n")
    (tmp_path / "bisector").mkdir()
    (tmp_path / "bisector" / "__init__.py").write_text("raise ImportError('not this either')\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "case.py").write_text(
        "import torch\nprint(torch.compile(lambda x: x.half().float() * 3)(torch.rand(9)))\n"
    )
    done = subprocess.run(
        processes.module("bisector", "check", "scripts/case.py", "-q"),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow  # two runs of check
def test_a_kernel_of_which_a_part_was_written_is_built_anew(tmp_path: Path) -> None:
    script = "import torch\nprint(torch.compile(lambda x: x.half().float() * 3.25)(torch.rand(9)))\n"
    (tmp_path / "case.py").write_text(script)
    cache = tmp_path / "cache"
    said = []
    for _ in range(2):
        done = subprocess.run(
            processes.module("bisector", "check", "case.py", "--json", "-", "-q"),
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
        )  # fmt: skip
        said.append((done.returncode, json.loads(done.stdout)["verdict"]))
        kernels = list(cache.rglob("*.so"))
        for kernel in kernels:
            kernel.write_bytes(b"")
    assert kernels
    assert said[0] == said[1]
    assert said[0][1]["class"] == "elided-rounding"


@pytest.mark.slow
def test_what_arises_between_two_graphs_is_explained_with_the_graph_and_a_repro_of_the_script(
    tmp_path: Path,
) -> None:
    result = minimized(FORMS["the last bit of one graph is a step of the next"].script, tmp_path)
    causes = [cause["decisions"] for cause in result["causes"] if cause["confirmed"]]
    assert causes == [["g1/lower:aten.exp@exp"]]
    assert "of its 2 graphs it diverges with g1 alone compiled" in result["text_notes"]
    assert repro_ends(tmp_path) == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("raising", RAISING.values(), ids=RAISING)
def test_what_raises_on_one_side_is_minimized_to_three_calls_at_most(
    raising: Raising, tmp_path: Path
) -> None:
    # A lower backend says where, and is no answer.
    result = minimized(raising.script, tmp_path, status=3 if raising.repair is None else 0)
    assert result["verdict"]["class"] == "raises"
    assert raising.said in result["verdict"]["reason"]
    assert len(result["minimal"]["ops"]) <= 3
    repairs = [tuple(repair["decisions"]) for repair in result["repairs"] if repair["confirmed"]]
    assert raising.repair is None or raising.repair in repairs
    assert repro_ends(tmp_path) == [1, 0]


@pytest.mark.slow  # two whole runs
def test_two_of_three_calls_diverge_for_two_causes_and_each_is_explained(tmp_path: Path) -> None:
    written(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        @torch.compile
        def agrees(x):
            return x + 1

        @torch.compile
        def rounds(x):
            return (x * 1.1).half().float() - 2

        @torch.compile
        def clipped(x):
            return torch.relu(x - 0.5) * 2

        x = torch.linspace(0, 3, 100)
        for function in (agrees, rounds, clipped):
            function(x)
        """,
        tmp_path,
    )
    command = processes.module("bisector", "minimize", "script.py", "--out", "run", "--all", "-q")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worst, other = (
        json.loads((tmp_path / "run" / name).read_text()) for name in ("result.json", "call-2/result.json")
    )
    assert worst["entry"] == "clipped" and other["entry"] == "rounds"
    assert [(o["call"], o["same_cause"]) for o in worst["others"]] == [(2, False)]
    causes = [{d.partition("@")[0] for c in r["causes"] for d in c["decisions"]} for r in (worst, other)]
    assert "lower:aten.relu" in causes[0] and "cast:float16" in causes[1]
    assert repro_ends(tmp_path) == repro_ends(tmp_path, "run/call-2") == [1, 0]
    assert "explained in call-2" in done.stdout
