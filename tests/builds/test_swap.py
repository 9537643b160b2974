"""The Python of one build over the binary of another: which side of two builds has the change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bisector.builds.predicate import CannotInstall, Interpreter
from bisector.builds.swap import crossed, is_built
from tests.builds.fake_index import INIT, REPRO, FakeIndex
from tests.builds.repository import Sources

# A repro whose fix turns the decision off, in a build that has it.
WITH_FIX = REPRO.replace("import torch\n", "import torch\n\nFIXED = '--fixed' in sys.argv\n", 1).replace(
    "torch.Tensor(torch.DIFFERENCE)", "torch.Tensor(torch.DIFFERENCE + (0.0 if FIXED else torch.DECISION))"
)


def asked(url: str, folder: Path, *arguments: object, repro: str = REPRO) -> dict[str, Any]:
    (folder / "repro.py").write_text(repro)
    options = ["--index-url", url, "--out", folder / "run", "--json", "-", *arguments]
    command = [sys.executable, "-m", "bisector", "builds", folder / "repro.py", *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["builds"]
    return found


@pytest.mark.parametrize(
    ("expression", "python", "binary", "side"),
    [
        ("{python} + 0 * BINARY", 1.0, 1.0, "python"),
        ("BINARY + 0 * {python}", 1.0, 1.0, "binary"),
        ("{python} + BINARY", 1.0, 1.0, "either"),
        ("{python} * BINARY", 1.0, 1.0, "both"),
    ],
)
def test_each_side_is_told_from_the_others(
    expression: str, python: float, binary: float, side: str, index: FakeIndex, url: str, tmp_path: Path
) -> None:
    for version, of_python, of_binary in (("2.10.0", 0.0, 0.0), ("2.11.0", python, binary)):
        init = INIT.format(difference=expression.format(python=of_python))
        index.add(version, init=init, binary=of_binary)
    found = asked(url, tmp_path, "--good", "2.10", "--bad", "2.11")
    assert (found["answer"], found["side"]["of"]) == ("release range", side)
    assert (found["side"]["reason"] == "") == (side == "python")
    assert [build["name"] for build in found["tried"][2:]] == [
        "the Python of 2.11.0 over 2.10.0", "the Python of 2.10.0 over 2.11.0",
    ]  # fmt: skip


def test_a_python_that_the_other_binary_cannot_run_leaves_the_side_open(
    index: FakeIndex, url: str, tmp_path: Path
) -> None:
    index.add("2.10.0", 0.0)
    later = INIT.format(difference=1.0) + "assert BINARY == 7.0, 'a symbol of a later binary'\n"
    index.add("2.11.0", init=later, binary=7.0)
    found = asked(url, tmp_path, "--good", "2.10", "--bad", "2.11")
    assert found["side"]["of"] is None
    assert "the Python of 2.11.0 over 2.10.0 cannot tell: " in found["side"]["reason"]
    assert "a symbol of a later binary" in " ".join(found["not_established"])


@pytest.mark.parametrize(("before", "came"), [(0.0, "introduced"), (1e-9, "exposed")])
def test_a_decision_that_was_there_before_is_told_from_a_new_one(
    before: float, came: str, index: FakeIndex, url: str, tmp_path: Path
) -> None:
    for version, difference, decision in (("2.10.0", 0.0, before), ("2.11.0", 1.0, 1.0)):
        index.add(version, init=INIT.format(difference=difference) + f"DECISION = {decision}\n")
    found = asked(url, tmp_path, "--good", "2.10", "--bad", "2.11", repro=WITH_FIX)
    assert found["came"]["as"] == came


def test_a_fix_that_the_older_build_does_not_know_leaves_it_open(
    index: FakeIndex, url: str, tmp_path: Path
) -> None:
    index.add("2.10.0", init=INIT.format(difference=0.0) + "DECISION = 0.0\n")
    index.add("2.11.0", init=INIT.format(difference=1.0) + "DECISION = 0.0\nSETTING = 1\n")
    unknown = WITH_FIX.replace("if torch.DIFF", "if FIXED:\n    torch.SETTING + 1\nif torch.DIFF", 1)
    found = asked(url, tmp_path, "--good", "2.10", "--bad", "2.11", repro=unknown)
    assert found["came"]["as"] is None
    assert "with the repro's fix 2.10.0 cannot tell: AttributeError" in found["came"]["reason"]


@pytest.fixture
def nights(index: FakeIndex, tmp_path: Path) -> Sources:
    """Nine commits of a main line, the sixth of which brings the change, and three nightlies of them."""
    made = Sources(tmp_path / "pytorch")
    for number in range(9):
        text = INIT.format(difference=1.0 if number >= 5 else 0.0) + f"# commit {number}\n"
        made.commit(f"commit {number} (#{number})", {"torch/__init__.py": text})
    main = list(made.commits)
    made.repo.git.checkout("-b", "nightly", main[0])
    for night, number in enumerate((0, 4, 8)):
        made.repo.git.checkout("-B", "nightly", main[number])
        message = f"2026-07-0{night + 1} nightly release ({main[number]})"
        stamp = made.commit(message, {"build.txt": str(night)})
        text = (made.folder / "torch/__init__.py").read_text()
        index.add(f"2.13.0.dev2026070{night + 1}", init=text, commit=stamp)
        made.repo.git.tag(f"night-{night}")  # keeps it
    made.commits = main
    return made


def test_nightlies_lead_to_the_commit_between_them(nights: Sources, url: str, tmp_path: Path) -> None:
    found = asked(
        url, tmp_path, "--good", "2026-07-01", "--bad", "2026-07-03", "--pytorch-repo", nights.folder
    )
    assert (found["answer"], found["side"]["of"]) == ("exact commit", "python")
    assert found["after"]["commit"] == nights.commits[5]
    assert [commit["pull"] for commit in found["commits"]] == [5]
    assert [step["rung"] for step in found["steps"]] == ["releases", "patch releases", "nightlies", "commits"]


def test_a_clone_without_the_commits_leaves_the_range_of_nights(
    nights: Sources, url: str, tmp_path: Path
) -> None:
    other = Sources(tmp_path / "other")
    other.commit("of another project", {"torch/__init__.py": ""})
    found = asked(
        url, tmp_path, "--good", "2026-07-01", "--bad", "2026-07-03", "--pytorch-repo", other.folder
    )
    assert (found["answer"], found["after"]["name"]) == ("nightly range", "2026-07-03")
    assert "fetch it, or name another clone" in " ".join(found["not_established"])


def test_a_change_of_the_binary_is_left_to_the_build_command(
    index: FakeIndex, url: str, tmp_path: Path
) -> None:
    made = Sources(tmp_path / "pytorch")
    init = INIT.replace("from .version import __version__, git_version\nfrom . import version\n", "")
    for number in range(7):
        text = "no number" if number == 2 else str(float(number >= 4))
        made.commit(
            f"commit {number}",
            {"torch/__init__.py": init.format(difference="BINARY"), "difference.txt": f"{text}\n# {number}"},
        )
    for night, number in enumerate((0, 6)):
        name, commit = f"2.13.0.dev2026070{night + 1}", made.commits[number]
        index.add(name, init=INIT.format(difference="BINARY"), binary=float(number >= 4), commit=commit)
    # Of the third commit it fails.
    command = "mkdir -p torch/lib; head -1 difference.txt > torch/lib/difference; grep ^[01] difference.txt"
    found = asked(
        url, tmp_path, "--good", "2026-07-01", "--bad", "2026-07-02",
        "--pytorch-repo", made.folder, "--build-command", command,
    )  # fmt: skip
    assert (found["side"]["of"], found["answer"]) == ("binary", "exact commit")
    assert found["after"]["commit"] == made.commits[4]
    assert "== " + made.commits[4] in (tmp_path / "run" / "build.log").read_text()


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("no_such_program", 2, "--build-command ended with status 127"),
        ("kill -9 $$", 2, "--build-command ended with status -9"),
        ("exit 125", 3, "the build command ended with status 125"),
    ],
)
def test_a_command_that_cannot_be_run_ends_the_search_and_one_that_fails_cannot_tell(
    command: str, status: int, said: str, tmp_path: Path
) -> None:
    made = Sources(tmp_path / "pytorch")
    good, bad = (made.commit(f"commit {number}", {"torch/__init__.py": f"# {number}"}) for number in (1, 2))
    (tmp_path / "repro.py").write_text(REPRO)
    options = ["--good", good, "--bad", bad, "--pytorch-repo", made.folder, "--build-command", command]
    arguments = [sys.executable, "-m", "bisector", "builds", tmp_path / "repro.py", *options]
    done = subprocess.run(
        [*map(str, arguments), "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert said in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("name", "built"),
    [
        ("torch/_inductor/ir.py", False),
        ("torch/_inductor/kernel/templates/mm.py.jinja", False),
        ("torch/version.py", True),
        ("torch/lib/libtorch.so", True),
        ("torch/library.py", False),
        ("torch/_C.cpython-311-x86_64-linux-gnu.so", True),
        ("torch/_C/_autograd.pyi", True),
        ("torch/testing/_internal/generated/annotated_fn_args.py", True),
    ],
)
def test_what_a_build_made_is_told_by_its_place(name: str, built: bool) -> None:
    assert is_built(name) is built


def test_two_builds_that_do_not_fit_together_are_no_build(tmp_path: Path) -> None:
    gone = Interpreter(tmp_path / "bin" / "python", tmp_path)
    with pytest.raises(CannotInstall, match="raise --cache-gib"):
        crossed(gone, gone, tmp_path / "crossed")
