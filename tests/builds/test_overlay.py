"""The Python and the headers of a commit in front of a build, on trees small enough to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bisector.builds.commits import TRACKED, Overlay, from_elsewhere
from bisector.builds.history import between, full_name, opened
from bisector.builds.predicate import Interpreter
from bisector.errors import BadOption, MissingTool
from tests.builds.repository import Sources

VEC = "aten/src/ATen/cpu/vec/vec.h"
SOURCES = {
    "torch/__init__.py": "from . import kernel\n",
    "torch/kernel.py": "NUMBER = 1\n",
    "torch/_inductor/__init__.py": "",
    "torchgen/__init__.py": "",
    "functorch/__init__.py": "",
    VEC: "// 1\n",
    "docs/index.md": "outside of the overlay\n",
}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    made = Sources(tmp_path / "pytorch")
    made.commit("base (#1)", SOURCES)
    return made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The packages of a build: its own Python, what was generated, a library and headers."""
    folder = tmp_path / "site"
    built = {
        "torch/__init__.py": "raise ImportError('the Python of the build')\n",
        "torch/kernel.py": "NUMBER = 0\n",
        "torch/version.py": "git_version = 'built'\n",
        "torch/lib/libtorch.so": "binary",
        "torch/_inductor/__init__.py": "",
        "torch/include/ATen/cpu/vec/vec.h": "// 0\n",
        "torch/include/ATen/generated.h": "// generated\n",
        "torchgen/__init__.py": "",
        "functorch/__init__.py": "",
    }
    for name, text in built.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def overlay(sources: Sources, site: Path, tmp_path: Path) -> Overlay:
    binary = Interpreter(Path(sys.executable), site)
    return Overlay(sources.repo, binary, tmp_path / "overlay", sources.commits[0])


def said(where: Interpreter, program: str) -> str:
    command = [str(where.python), "-c", program]
    variables = dict(where.variables)
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()


def python(overlay: Overlay, commit: str) -> Interpreter:
    return overlay.interpreter(commit)


def test_each_commit_gives_its_own_python_over_what_was_built(sources: Sources, overlay: Overlay) -> None:
    second = sources.commit("another number (#2)", {"torch/kernel.py": "NUMBER = 22\n"})
    program = "import torch, torch.version as v; print(torch.kernel.NUMBER, v.git_version, torch.__file__)"
    first = said(python(overlay, sources.commits[0]), program).split()
    assert first[:2] == ["1", "built"]
    assert not from_elsewhere({"file": first[2]}, overlay.folder)
    assert from_elsewhere({"file": first[2], "inductor": "/site/torch/_inductor/__init__.py"}, overlay.folder)
    assert said(python(overlay, second), program).split()[0] == "22"


def test_a_commit_that_changes_nothing_but_a_digit_is_not_taken_for_the_one_before(
    sources: Sources, overlay: Overlay
) -> None:
    """Python knows a compiled file by its size and the second of its time."""
    commits = [sources.commit(f"{n}", {"torch/kernel.py": f"NUMBER = {n}\n"}) for n in range(2, 5)]
    program = "import torch; print(torch.kernel.NUMBER)"
    assert [said(python(overlay, commit), program) for commit in commits] == ["2", "3", "4"]


def test_headers_of_the_sources_lie_where_generated_code_includes_them(
    sources: Sources, overlay: Overlay
) -> None:
    second = sources.commit("a header", {VEC: "// 2\n"})
    include = overlay.folder / "torch/include/ATen"
    python(overlay, sources.commits[0])
    assert (include / "cpu/vec/vec.h").read_text() == "// 1\n"
    python(overlay, second)
    assert (include / "cpu/vec/vec.h").read_text() == "// 2\n"
    assert (include / "generated.h").read_text() == "// generated\n"


def test_a_file_that_a_commit_removed_does_not_come_back_from_the_build(
    sources: Sources, overlay: Overlay
) -> None:
    gone = sources.commit("no kernel", {"torch/kernel.py": None, "torch/__init__.py": ""})
    python(overlay, gone)
    assert not (overlay.folder / "torch/kernel.py").exists()


def test_what_a_commit_puts_in_the_place_of_a_built_file_is_gone_after_it(
    sources: Sources, overlay: Overlay
) -> None:
    tracked = sources.commit("tracked for a day", {"torch/version.py": "git_version = 'mine'\n"})
    program = "import torch.version as v; print(v.git_version)"
    told = [said(python(overlay, c), program) for c in (sources.commits[0], tracked, sources.commits[0])]
    assert told == ["built", "mine", "built"]


def test_the_clone_of_the_user_is_not_touched(sources: Sources, overlay: Overlay, site: Path) -> None:
    (sources.folder / "torch/kernel.py").write_text("half an edit\n")
    python(overlay, sources.commits[0])
    assert (sources.folder / "torch/kernel.py").read_text() == "half an edit\n"
    assert sources.repo.head.commit.hexsha == sources.commits[-1]
    assert sources.repo.git.worktree("list").count("\n") == 0
    assert (site / "torch/kernel.py").read_text() == "NUMBER = 0\n"


def test_commits_come_with_their_pull_requests_and_what_they_undo(sources: Sources) -> None:
    first = sources.commits[0]
    sources.commit("Faster (#7)\n\nBody\n", {"torch/_inductor/codegen.py": "x = 1\n"})
    sources.commit("Docs only (#8)", {"docs/index.md": "new\n"})
    message = 'Revert "Faster (#7)"\n\nPull Request resolved: https://example.com/pytorch/pull/9\n'
    sources.commit(message, {"torch/_inductor/codegen.py": None})
    last = sources.commit("[Reland] Faster (#10)", {"torch/kernel.py": "NUMBER = 3\n"})
    told = [(c.title, c.pull, c.note, c.inductor) for c in between(sources.repo, first, last, TRACKED)]
    assert told == [
        ("Faster (#7)", 7, "", True),
        ('Revert "Faster (#7)"', 9, "revert", True),
        ("[Reland] Faster (#10)", 10, "reland", False),
    ]


def test_a_commit_or_a_clone_that_is_not_there_is_one_line(sources: Sources, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="fetch it, or name another clone"):
        full_name(sources.repo, "0123456789")
    with pytest.raises(BadOption, match="no git repository; name a clone of PyTorch"):
        opened(str(tmp_path / "nowhere"))


def test_two_commits_of_different_lines_have_nothing_between_them(sources: Sources) -> None:
    first = sources.commit("on the line", {"torch/kernel.py": "NUMBER = 5\n"})
    sources.repo.git.checkout("--orphan", "other")
    other = sources.repo.index.commit("another line", parent_commits=[]).hexsha
    with pytest.raises(BadOption, match="no ancestor"):
        between(sources.repo, first, other, TRACKED)


def test_a_clone_without_git_is_a_tool_that_is_missing(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingTool, match="no git: "):
        opened(str(sources.folder))


def test_git_is_missed_where_it_is_needed_and_not_before() -> None:
    program = "import bisector.cli.builds_command"
    done = subprocess.run([sys.executable, "-c", program], env={"PATH": "/nowhere"}, check=False)
    assert done.returncode == 0
