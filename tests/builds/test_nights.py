"""From two nightlies on to the commits between them, in a clone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builds.fake_index import INIT, REPRO, FakeIndex
from tests.builds.repository import Sources
from tests.command import numbisect


def asked(url: str, folder: Path, *arguments: object) -> dict[str, Any]:
    (folder / "repro.py").write_text(REPRO)
    options = ["--index-url", url, "--out", folder / "run", "--json", "-", *arguments]
    done = numbisect("builds", folder / "repro.py", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["builds"]
    return found


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
    assert found["answer"] == "exact commit"
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


def test_of_a_change_that_comes_with_the_binary_no_commit_is_named(
    index: FakeIndex, url: str, tmp_path: Path
) -> None:
    made = Sources(tmp_path / "pytorch")
    init = INIT.format(difference="BINARY")
    for number in range(3):
        made.commit(f"commit {number}", {"torch/__init__.py": f"{init}# commit {number}\n"})
    for night, number in enumerate((0, 2)):
        name, commit = f"2.13.0.dev2026070{night + 1}", made.commits[number]
        index.add(name, init=init, binary=float(number), commit=commit)
    found = asked(
        url, tmp_path, "--good", "2026-07-01", "--bad", "2026-07-02", "--pytorch-repo", made.folder
    )
    assert (found["answer"], found["after"]["name"]) == ("nightly range", "2026-07-02")
    assert "the change comes with the binary" in " ".join(found["not_established"])


def test_where_the_commit_of_the_earlier_build_diverges_too_nothing_is_said_of_the_binary(
    index: FakeIndex, url: str, tmp_path: Path
) -> None:
    made = Sources(tmp_path / "pytorch")
    for number in range(2):
        made.commit(f"commit {number}", {"torch/__init__.py": INIT.format(difference=1.0) + f"# {number}\n"})
        name, init = f"2.13.0.dev2026070{number + 1}", INIT.format(difference=float(number))
        index.add(name, init=init, commit=made.commits[number])
    found = asked(
        url, tmp_path, "--good", "2026-07-01", "--bad", "2026-07-02", "--pytorch-repo", made.folder
    )
    told = " ".join(found["not_established"])
    assert "both diverge" in told and "the change comes with the binary" not in told
