"""What a path is, without running it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bisector import wire
from bisector.core.options import Options, Question
from bisector.core.own_folders import RUN_OPTIONS, TRIAGE_OPTIONS
from bisector.errors import BadTarget
from bisector.subject.targets import Failure, Skipped, TargetKind, found, recognise


def files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"# {name}\n")
    return folder


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (("case.py", "bundle.json", "inputs.pt"), "case.py"),
        (("repro.py", "report.md"), "repro.py"),
        (("minifier_launcher.py",), "minifier_launcher.py"),
    ],
    ids=["a bundle", "a run, or what torch's minifier left", "a minifier that did not end"],
)
def test_a_folder_stands_for_the_script_in_it(tmp_path: Path, names: tuple[str, ...], meant: str) -> None:
    folder = files(tmp_path / "folder", *names)
    target = recognise(folder)
    assert (target.kind, target.path) == (TargetKind.SCRIPT, folder / meant)


def test_a_repro_of_torch_is_a_script_whatever_it_is_called(tmp_path: Path) -> None:
    named = tmp_path / "fx_graph_runnable_0.txt"
    named.write_text("from torch._dynamo.repro.after_aot import run_repro\n")
    assert recognise(named).kind is TargetKind.SCRIPT
    (tmp_path / "notes.txt").write_text("it fails\n")
    with pytest.raises(BadTarget, match="not a Python script"):
        recognise(tmp_path / "notes.txt")


def test_what_is_unpickled_is_taken_only_on_trust(tmp_path: Path) -> None:
    archive = files(tmp_path, "program.pt2") / "program.pt2"
    bug = files(tmp_path / "bug", "model.pth", "gir.pkl", "oracle.pkl", "meta.json")
    for path, kind in ((archive, TargetKind.EXPORTED), (bug, TargetKind.NNSMITH)):
        with pytest.raises(BadTarget, match="--trust"):
            recognise(path)
        assert recognise(path, trusted=True).kind is kind


def test_what_is_not_there_and_what_holds_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match="no such file"):
        recognise(tmp_path / "gone.py")
    with pytest.raises(BadTarget, match="neither a bundle nor a run"):
        recognise(tmp_path)


def test_all_failures_below_a_folder_are_found_and_all_else_is_listed(tmp_path: Path) -> None:
    files(tmp_path / "bundle", "case.py", "bundle.json", "inputs.pt")
    files(tmp_path / "deep" / "er", "script.py", "seeds.log")
    files(tmp_path / "__pycache__", "script.pyc")
    files(tmp_path, "model.pt2")
    taken = list(found([tmp_path], trusted=False))
    failures = [one.path.relative_to(tmp_path).as_posix() for one in taken if isinstance(one, Failure)]
    skipped = {one.path.name: one.reason for one in taken if isinstance(one, Skipped)}
    assert failures == ["bundle", "deep/er/script.py"]
    assert skipped.keys() == {"model.pt2", "seeds.log"}
    assert "--trust" in skipped["model.pt2"]


def test_the_same_failure_has_the_same_id_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    (tmp_path / "c.py").write_text("x = 2\n")
    a, b, c = (one.id for one in found([tmp_path], trusted=False) if isinstance(one, Failure))
    assert a == b != c


def test_links_that_lead_round_are_not_followed(tmp_path: Path) -> None:
    folder = files(tmp_path / "in", "script.py")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "itself.py").symlink_to(folder / "itself.py")
    taken = list(found([folder], trusted=False))
    assert [one.path.name for one in taken if isinstance(one, Failure)] == ["script.py"]
    assert {one.path.name for one in taken if isinstance(one, Skipped)} <= {"itself.py", "loop"}


def _of_numbisect(folder: Path) -> None:
    """A folder of runs and a triage, as a triage of this folder leaves them."""
    run = files(folder / "numbisect-runs" / "case-1", "repro.py", "report.md", "case-1.py")
    (run / RUN_OPTIONS).write_text(json.dumps(wire.dump_command(Options("case.py"))))
    files(run / "call-2", "repro.py")
    builds = files(folder / "numbisect-runs" / "builds-1", "script.py")
    (builds / RUN_OPTIONS).write_text(json.dumps(wire.dump_command(Question("case.py", None, "2.13"))))
    store = files(folder / "numbisect-triage", TRIAGE_OPTIONS, "triage.md")
    files(store / "failures" / "0123" / "run", "repro.py")
    files(store / "clusters" / "fma", "repro.py", "report.md")


def test_what_numbisect_wrote_itself_is_no_failure_of_the_next_look(tmp_path: Path) -> None:
    files(tmp_path, "script.py")
    _of_numbisect(tmp_path)
    taken = list(found([tmp_path], trusted=False))
    assert [one.path.name for one in taken if isinstance(one, Failure)] == ["script.py"]
    skipped = {one.path.name: one.reason for one in taken if isinstance(one, Skipped)}
    assert skipped.keys() == {"case-1", "builds-1", "numbisect-triage"}
    assert all("numbisect itself" in reason for reason in skipped.values())


def test_a_triage_that_is_named_holds_no_failures_and_a_run_that_is_named_is_one(tmp_path: Path) -> None:
    _of_numbisect(tmp_path)
    (store,) = found([tmp_path / "numbisect-triage"], trusted=False)
    assert isinstance(store, Skipped)
    (run,) = found([tmp_path / "numbisect-runs" / "case-1"], trusted=False)
    assert isinstance(run, Failure) and run.target.path.name == "repro.py"


@pytest.mark.parametrize("content", ["{}", "[1]", "{", '{"command": "fuzz"}'])
def test_options_of_a_fuzzer_make_no_run_of_its_folder(tmp_path: Path, content: str) -> None:
    folder = files(tmp_path / "found", "script.py")
    (folder / RUN_OPTIONS).write_text(content)
    taken = list(found([tmp_path], trusted=False))
    assert [one.path.name for one in taken if isinstance(one, Failure)] == ["script.py"]
