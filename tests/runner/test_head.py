"""A journal goes on only under the head that it began with; what changed is said in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisector.errors import BadTarget, WorkerLost
from bisector.runner import head as heads
from bisector.runner.head import Head, changed_files, digest_of, head_of
from bisector.runner.journal import Journal

HEAD = Head(
    {"numbisect": "0.1.0", "torch": "2.13.0 (cf30153c4c)", "the C++ compiler": "g++ 12"},
    "digest",
    {"seed": None, "config": {}},
    {"OMP_NUM_THREADS": "2"},
    {"processors": "2"},
)
CHANGES: dict[str, dict[str, Any]] = {
    "case.py was edited": {"target": "other"},
    "torch is 2.14.0, and was 2.13.0 (cf30153c4c)": {"versions": {**HEAD.versions, "torch": "2.14.0"}},
    "numbisect is 0.2.0, and was 0.1.0": {"versions": {**HEAD.versions, "numbisect": "0.2.0"}},
    "the option seed is 3, and was not there": {"asked": {**HEAD.asked, "seed": 3}},
    "the environment variable TORCHINDUCTOR_FREEZING is 1, and was not there": {
        "environment": {**HEAD.environment, "TORCHINDUCTOR_FREEZING": "1"}
    },
    "the environment variable OMP_NUM_THREADS is not there, and was 2": {"environment": {}},
    "the machine's processors is 4, and was 2": {"machine": {"processors": "4"}},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def answered(path: Path, head: Head | None = HEAD) -> None:
    journal = Journal(path, head, "case.py")
    journal.done("key", {"outputs": []})
    journal.close()


def test_a_journal_is_opened_again_under_the_same_head(path: Path) -> None:
    answered(path)
    again = Journal(path, HEAD, "case.py")
    assert again.answers == {"key": {"outputs": []}}
    again.close()


@pytest.mark.parametrize("said", CHANGES)
def test_another_head_is_refused_in_one_line_that_says_what_changed(path: Path, said: str) -> None:
    answered(path)
    before = path.read_text().split()
    with pytest.raises(BadTarget) as refused:
        Journal(path, replace(HEAD, **CHANGES[said]), "case.py")
    over = f"`numbisect resume {path.parent} --again` starts over"
    assert str(refused.value) == f"{path.parent}: {said}; {over}"
    assert path.read_text().split() == before
    again = Journal(path, HEAD, "case.py")  # the refused one left no lock behind
    again.close()


def test_a_journal_without_a_head_is_refused_once_it_has_answers(path: Path) -> None:
    answered(path, None)
    with pytest.raises(BadTarget, match="does not say under what it was made"):
        Journal(path, HEAD)


def test_a_head_whose_line_was_cut_short_is_written_anew(path: Path) -> None:
    path.write_text('{"event": "head", "hea')
    Journal(path, HEAD).close()
    with pytest.raises(BadTarget, match="was edited"):
        Journal(path, replace(HEAD, target="other"), "case.py")


def test_a_file_that_the_target_read_may_not_change(path: Path, tmp_path: Path) -> None:
    beside = tmp_path / "helper.py"
    beside.write_text("SCALE = 3.0")
    journal = Journal(path, HEAD)
    journal.read([str(beside)])
    journal.close()
    Journal(path, HEAD).close()
    beside.write_text("SCALE = 4.0")
    with pytest.raises(BadTarget, match=r"helper\.py, which the target reads, was edited"):
        Journal(path, HEAD)
    beside.unlink()
    with pytest.raises(BadTarget, match=r"helper\.py, which the target reads, is gone"):
        Journal(path, HEAD)


def test_the_head_of_this_machine_is_equal_to_itself_and_names_the_target(tmp_path: Path) -> None:
    target = tmp_path / "case.py"
    target.write_text("import torch")
    now = head_of(target, {}, "g++ 12")
    assert now == head_of(target, {}, "g++ 12")
    target.write_text("import torch  # edited")
    assert now.changed("case.py", head_of(target, {}, "g++ 12")) == "case.py was edited"


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("TORCHINDUCTOR_MAX_AUTOTUNE", True),
        ("OMP_NUM_THREADS", True),
        ("CXX", True),
        ("TORCHINDUCTOR_CACHE_DIR", False),
        ("TRITON_CACHE_DIR", False),
        ("TORCH_LOGS", False),
        ("HOME", False),
    ],
)
def test_of_the_environment_what_shapes_code_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, matters: bool
) -> None:
    before = head_of(tmp_path / "case.py", {}, None)
    monkeypatch.setenv(name, "another value")
    assert (head_of(tmp_path / "case.py", {}, None) != before) is matters


def test_a_folder_has_the_digest_of_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = digest_of(tmp_path)
    (tmp_path / "b").write_text("2")
    assert digest_of(tmp_path) != before
    assert digest_of(tmp_path / "nothing") == ""


def test_a_large_file_is_known_by_its_size_and_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "_READ_WHOLE", 3)
    large = tmp_path / "weights.pt"
    large.write_bytes(b"1234")
    digests = {str(large): digest_of(large)}
    assert changed_files(digests) is None
    large.write_bytes(b"12345")
    assert changed_files(digests) is not None


def test_a_worker_is_not_started_for_a_file_that_was_edited_while_the_run_was_at_work(
    path: Path, tmp_path: Path
) -> None:
    from bisector.core.messages import LoadOptions, WorkerOptions
    from bisector.runner.lab import Lab

    script = tmp_path / "case.py"
    script.write_text("1")
    journal = Journal(path, HEAD)
    journal.read([str(script)])
    script.write_text("2")
    lab = Lab(WorkerOptions(LoadOptions("case.py")), journal, 1, 1.0, lambda *told: None)
    with pytest.raises(WorkerLost, match=r"case\.py.*was edited while the run was at work"):
        lab.hello()
    journal.close()
