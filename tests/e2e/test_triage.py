"""A triage of real failures, with what is none among them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bisector.core.options import Options
from bisector.explain.triage.driver import job_command
from bisector.explain.triage.store import Store
from bisector.subject.targets import Failure, found
from tests.command import numbisect
from tests.e2e.hostile import climbing_archive, huge_bundle, malicious_bundle
from tests.runner.test_head import HEAD
from tests.scripts.folded import FOLDED
from tests.warm import ANYWAY

AGREES = "import torch\n\ntorch.compile(torch.relu)(torch.rand(4))\n"
MALICIOUS = "import torch\n\ntorch.load({path!r}, weights_only=True)\n"
PICKLED = "cos\nsystem\n(S'touch {path}'\ntR."


pytestmark = pytest.mark.usefixtures("warm_workers")


Sorted = tuple[Path, subprocess.CompletedProcess[str]]  # a folder, and the triage of what is in it


def run(folder: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    return numbisect("triage", *paths, "--out", "out", "--no-color", folder=folder)


@dataclass(frozen=True)
class Watched:
    """A folder that was triaged, then watched while files came. before, after: the first triage, the last.
    status, said: of the command that watched, at its end."""

    folder: Path
    before: dict[str, Any]
    after: dict[str, Any]
    status: int
    said: str


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, warm_workers: None, warm_command: str) -> Watched:
    """Two failures of one cause and what is none: one whole run for the first, probes for the second, which
    comes while the folder is watched."""
    folder = tmp_path_factory.mktemp("triage")
    (folder / "in").mkdir()
    for name in ("first.py", "same.py"):
        (folder / "in" / name).write_text(FOLDED)
    (folder / "in" / "notes.txt").write_text("seed 7 fails")
    command = ["-m", "bisector", "triage", "--out", "out", "-q"]
    done = subprocess.run(
        [warm_command, *command, "in"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    before = told(folder)
    process = subprocess.Popen(  # a cold one, which Ctrl-C reaches
        [sys.executable, *command, "--watch", "in"],
        cwd=folder, env={**os.environ, **ANYWAY}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    (folder / "in" / "renamed.py").write_text(FOLDED)
    (folder / "in" / "new.py").write_text(FOLDED.replace("abs", "sin"))
    known = len(before["failures"])
    wait_until(lambda: len(told(folder)["failures"]) == known + 1, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    return Watched(folder, before, told(folder), process.returncode, said)


@pytest.fixture(scope="module")
def sorted_out(tmp_path_factory: pytest.TempPathFactory, warm_workers: None) -> Sorted:
    """What is no failure, or cannot be looked at."""
    folder = tmp_path_factory.mktemp("sorted")
    failures = folder / "in"
    failures.mkdir()
    (failures / "\x1b[31mred.py").write_text(AGREES)
    (failures / "broken.py").write_text("import torch\n\ntorch.compile(torch.relu)(\n")
    (failures / "notes.txt").write_text("seed 7 fails")
    climbing_archive(failures / "program.pt2")
    malicious_bundle(failures, folder / "was-run")
    huge_bundle(failures)
    (failures / "loop").symlink_to(failures, target_is_directory=True)
    (folder / "evil.pt").write_text(PICKLED.format(path=folder / "was-run"))
    (failures / "evil.py").write_text(MALICIOUS.format(path=str(folder / "evil.pt")))
    return folder, run(folder, "in")


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "triage.json").read_text())
    return found


@pytest.mark.live
def test_failures_with_one_cause_are_one_cluster(watched: Watched) -> None:
    (cluster,) = watched.after["clusters"]
    assert (cluster["key"], cluster["size"]) == ("cfold:aten.mul", 2)
    assert cluster["fix"] == "inductor.joint_graph_constant_folding=False"
    assert watched.after["full_runs"] == 1
    repro = watched.folder / "out" / cluster["repro"]
    assert subprocess.run([sys.executable, "-I", str(repro)], check=False).returncode == 1
    report = repro.with_name("report.md").read_text()
    assert "`cfold:aten.mul@mul`" in report
    assert repro.read_text() in report


def test_what_agrees_cannot_be_run_or_is_no_failure_is_listed_apart(sorted_out: Any) -> None:
    folder, done = sorted_out
    found = told(folder)
    names = {one["id"]: Path(one["target"]).name for one in found["failures"]}
    assert [names[i] for i in found["agree"]] == ["\x1b[31mred.py"]
    unknown = sorted(names[i].rpartition("-")[0] or names[i] for i in found["cannot_tell"])
    assert unknown == ["broken.py", "evil", "evil.py", "huge"]
    problems = [one["problem"] for one in found["failures"] if one["id"] in found["cannot_tell"]]
    assert all(problem and "\n" not in problem for problem in problems)
    assert [problem for problem in problems if "record size" in problem]
    reasons = {Path(one["path"]).name: one["reason"] for one in found["skipped"]}
    assert reasons.keys() >= {"notes.txt", "program.pt2"}
    assert "--trust" in reasons["program.pt2"]
    assert "broken.py, line" in done.stdout


@pytest.mark.live
@pytest.mark.parametrize("trusted", [[], ["--trust"]])
def test_an_archive_that_climbs_out_of_its_folder_is_refused(tmp_path: Path, trusted: list[str]) -> None:
    within = tmp_path / "a" / "b" / "c"
    within.mkdir(parents=True)
    climbing_archive(within / "program.pt2")
    done = numbisect("check", "program.pt2", "-q", *trusted, folder=within)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert not list(tmp_path.rglob("escaped*"))


def test_nothing_is_unpickled_and_no_name_reaches_the_terminal_as_it_is(sorted_out: Any) -> None:
    folder, done = sorted_out
    assert not (folder / "was-run").exists()
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31mred.py" in (folder / "out" / "triage.md").read_text()


@pytest.mark.parametrize(
    ("made", "links"),
    [
        ("sorted_out", []),
        pytest.param(
            "watched", [f"clusters/cfold-aten.mul/{name}" for name in ("repro.py", "report.html")],
            marks=pytest.mark.live,
        ),
    ],
)
def test_the_page_is_whole(made: str, links: list[str], request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(made)
    folder = found.folder if isinstance(found, Watched) else found[0]

    class Links(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            self.found += [str(value) for name, value in attributes if name == "href"]

    page = (folder / "out" / "triage.html").read_text()
    parser = Links()
    parser.feed(page)
    assert [link for link in parser.found if not link.startswith("#")] == links
    assert all((folder / "out" / link).is_file() for link in parser.found if not link.startswith("#"))
    assert all(f'id="{link[1:]}"' in page for link in parser.found if link.startswith("#"))


@pytest.mark.live
def test_only_what_is_new_is_worked_on(watched: Watched) -> None:
    by_id = {one["id"]: one for one in watched.after["failures"]}
    assert all(by_id[one["id"]] == one for one in watched.before["failures"])
    new = by_id.keys() - {one["id"] for one in watched.before["failures"]}
    known = {Path(by_id[one]["target"]).name: by_id[one]["known"] for one in new}
    assert known == {"new.py": True}


def test_a_triage_is_gone_on_with_by_its_folder_alone(sorted_out: Any, tmp_path: Path) -> None:
    folder, first = sorted_out
    before = told(folder)
    done = numbisect("resume", folder / "out", "--json", "-", folder=tmp_path)
    assert done.returncode == first.returncode, done.stderr
    after = json.loads(done.stdout)
    assert {**after, "skipped": None} == {**before, "skipped": None}
    assert [Path(one["path"]).name for one in after["skipped"]] == ["notes.txt", "program.pt2"]


@pytest.mark.live
def test_a_run_that_the_budget_cuts_short_is_left_for_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "folded.py").write_text(FOLDED)
    store = Store.opened(tmp_path / "out", {}, HEAD)
    [failure] = found([tmp_path / "folded.py"], trusted=False)
    assert isinstance(failure, Failure)
    begun = store.begin(failure, "2026-01-01T00:00:00Z")
    options = asdict(Options(begun.target, command="minimize", budget_s=0.1))
    request = store.request(begun, {"known": [], "options": options})
    subprocess.run(job_command(request), check=True, stdout=subprocess.DEVNULL)
    left = store.read(failure.id)
    assert (left.explained, left.cause, left.problem) == (False, None, "the budget ended its run")
    assert left.probes > 0


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_a_triage_is_printed_again(sorted_out: Any, form: str) -> None:
    folder, _ = sorted_out
    done = numbisect("report", "out", "--format", form, folder=folder)
    assert done.returncode == 0, done.stderr
    if form == "json":
        assert json.loads(done.stdout) == told(folder)
    else:
        assert "failures, 0 causes\n" in done.stdout


@pytest.mark.live
def test_a_watched_folder_is_followed_until_ctrl_c(watched: Watched) -> None:
    assert (watched.status, len(watched.said.splitlines())) == (130, 1)
    assert watched.said.endswith("interrupted; go on with: numbisect resume out\n")


def wait_until(true: Callable[[], object], process: subprocess.Popen[str]) -> None:
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone"], "no such file or folder"),
        ([], "nothing to triage"),
        (["in", "--entry", "f"], "--entry names"),
        (["in", "--rtol", "1"], "give both"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "in").mkdir()
    done = run(tmp_path, *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert said in done.stderr
