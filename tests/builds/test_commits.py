"""`numbisect builds --pytorch-repo` on commits that are not PyTorch's, over the installed torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from git import Repo

from tests.builds.repository import Sources
from tests.command import numbisect

# The package that is not torch: each commit of it says by itself what it gives.
PACKAGE = "torchgen/__init__.py"
REPRO = """
import sys
import torchgen

sys.exit(torchgen.STATUS)
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Twelve commits: the 5th and the 6th need what is not there, the 9th diverges, the 12th agrees."""
    made = Sources(tmp_path / "pytorch")
    for number in range(13):
        status = 1 if 9 <= number < 12 else 0
        needs = "import torch_of_a_later_day\n" if number in (5, 6) else ""
        made.commit(f"commit {number} (#{number})", {PACKAGE: f"{needs}STATUS = {status}\n# {number}\n"})
        made.commit(f"docs {number}", {"docs/page.md": str(number)})
    return made


def run(sources: Sources, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder = sources.folder.parent
    repro = folder / "repro.py"
    repro.write_text(REPRO)
    where = ("--pytorch-repo", sources.folder, "--out", folder / "run")
    return numbisect("builds", repro, *where, *arguments, "--json", "-")


def found(sources: Sources, *arguments: str) -> dict[str, Any]:
    done = run(sources, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)["builds"]
    return told


def nth(sources: Sources, number: int) -> str:
    """The hash of a commit that changes the package; the one after it changes a page."""
    return sources.commits[2 * number]


def test_the_commit_is_named_and_pages_are_not_tried(sources: Sources) -> None:
    told = found(sources, "--good", nth(sources, 0), "--bad", nth(sources, 11))
    assert (told["answer"], told["confirmed"]) == ("exact commit", True)
    assert (told["before"]["commit"], told["after"]["commit"]) == (nth(sources, 8), nth(sources, 9))
    assert [(c["title"], c["pull"]) for c in told["commits"]] == [("commit 9 (#9)", 9)]
    assert {b["commit"] for b in told["tried"]} <= {nth(sources, n) for n in range(13)}


def test_the_log_is_one_that_git_bisect_replays_to_the_same_commit(sources: Sources) -> None:
    found(sources, "--good", nth(sources, 0), "--bad", nth(sources, 11))
    log = sources.folder.parent / "run" / "bisect.log"
    said = Repo(sources.folder).git.bisect("replay", str(log))
    # git counts the page between the two as well.
    assert f"{nth(sources, 9)} is the first bad commit" in said or "0 revisions left" in said


def test_what_fixed_it_is_found_by_the_same_walk(sources: Sources) -> None:
    told = found(sources, "--find-fix", "--bad", nth(sources, 9), "--good", nth(sources, 12))
    assert told["after"]["commit"] == nth(sources, 12)


def test_what_is_not_committed_is_neither_asked_nor_touched(sources: Sources) -> None:
    (sources.folder / PACKAGE).write_text("STATUS = 7\n")
    told = found(sources, "--good", nth(sources, 7), "--bad", nth(sources, 9))
    assert told["after"]["commit"] == nth(sources, 9)
    assert "what is not committed in the clone" in " ".join(told["not_established"])
    assert (sources.folder / PACKAGE).read_text() == "STATUS = 7\n"


def test_commits_that_cannot_tell_leave_a_range_of_them(sources: Sources) -> None:
    for number in (7, 8, 9):
        sources.commit(f"later {number}", {PACKAGE: f"import torch_of_a_later_day\n# {number}\n"})
    last = sources.commit("diverges", {PACKAGE: "STATUS = 1\n"})
    told = found(sources, "--good", nth(sources, 12), "--bad", last)
    assert told["answer"] == "commit range"
    assert len(told["skipped"]) == 3
    assert len(told["commits"]) == 4


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("2.10", "0123456789", "0123456789 is a commit; name a second one, or two builds"),
        ("0123456789", "9876543210", "fetch it, or name another clone with --pytorch-repo"),
    ],
)
def test_bounds_that_are_no_commits_of_the_clone_are_one_line(
    good: str, bad: str, said: str, sources: Sources
) -> None:
    done = run(sources, "--good", good, "--bad", bad)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_commit_without_a_clone_says_what_to_name(sources: Sources, tmp_path: Path) -> None:
    repro = tmp_path / "repro.py"
    repro.write_text(REPRO)
    done = numbisect("builds", repro, "--good", "0123456789", folder=tmp_path)
    assert done.returncode == 2
    assert "--pytorch-repo" in done.stderr
