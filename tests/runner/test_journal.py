"""The journal is the only state of a run: it must survive what kills the run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisector.errors import BadTarget, CannotWrite
from bisector.runner.journal import MAX_LOSSES, Journal, key_of

REQUEST = {"job": "probe", "call": 0}
KEY = key_of(REQUEST)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def written(path: Path, answers: dict[str, Any]) -> None:
    journal = Journal(path)
    for key, answer in answers.items():
        journal.started(key, {"job": key})
        journal.done(key, answer)
    journal.close()


def reread(path: Path) -> Journal:
    journal = Journal(path)
    journal.close()
    return journal


def test_an_answer_is_there_when_the_journal_is_opened_again(path: Path) -> None:
    written(path, {"a": {"outputs": [1.5, None]}, "b": {"error": "crash: signal 11 (SIGSEGV)"}})
    assert reread(path).answers == {
        "a": {"outputs": [1.5, None]},
        "b": {"error": "crash: signal 11 (SIGSEGV)"},
    }


def test_a_request_that_was_only_started_has_no_answer(path: Path) -> None:
    journal = Journal(path)
    journal.started(KEY, REQUEST)
    journal.close()
    assert KEY not in reread(path).answers
    assert not reread(path).gave_up(KEY)


def test_infinities_and_nan_come_back(path: Path) -> None:
    written(path, {"a": {"max_abs": float("inf"), "max_rel": float("nan")}})
    answer = reread(path).answers["a"]
    assert answer["max_abs"] == float("inf")
    assert answer["max_rel"] != answer["max_rel"]


def test_all_of_a_request_and_who_asks_make_its_key_and_the_order_of_its_parts_does_not() -> None:
    assert key_of(REQUEST) == key_of(dict(reversed(REQUEST.items())))
    assert len({key_of({**REQUEST, "call": n}) for n in range(10)} | {key_of(REQUEST, "confirm")}) == 11


def test_a_journal_cut_at_any_byte_keeps_the_answers_before_and_takes_new_ones_after(path: Path) -> None:
    given_answers = {"a": {"n": 1}, "b": {"text": "ä\u2028\n"}, "c": {"n": [1, 2]}}
    written(path, given_answers)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        complete = [
            json.loads(line) for line in whole[:end].splitlines(keepends=True) if line.endswith(b"\n")
        ]
        expected = {r["key"]: r["answer"] for r in complete if r["event"] == "done"}
        journal = Journal(path)
        assert journal.answers.items() >= expected.items()
        assert all(journal.answers[key] == given_answers[key] for key in journal.answers)
        journal.done("new", {"n": end})
        journal.close()
        assert reread(path).answers == {**journal.answers, "new": {"n": end}}


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.integers(0, 400))
def test_bytes_that_are_no_json_hide_no_answer_on_other_lines(path: Path, junk: bytes, where: int) -> None:
    path.unlink(missing_ok=True)
    written(path, {"a": {"n": 1}})
    lines = path.read_bytes().splitlines(keepends=True)
    junk = b"#" + junk.replace(b"\n", b"") + b"\n"
    path.write_bytes(b"".join([*lines[: where % 3], junk, *lines[where % 3 :]]))
    assert reread(path).answers == {"a": {"n": 1}}


def test_a_request_is_given_up_after_so_many_deaths_also_over_two_runs(path: Path) -> None:
    for deaths in range(MAX_LOSSES):
        journal = Journal(path)
        assert not journal.gave_up(KEY), deaths
        journal.lost(KEY)
        journal.close()
    assert reread(path).gave_up(KEY)
    assert not reread(path).gave_up("another")


def test_a_killed_process_leaves_every_answer_that_it_had_written(path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from bisector.runner.journal import Journal\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "for i in range(50): j.done(str(i), {'text': 'x' * 20000})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(reread(path).answers, key=int) == [str(i) for i in range(50)]


def test_two_runs_do_not_write_one_journal(path: Path) -> None:
    first = Journal(path)
    with pytest.raises(BadTarget, match="another numbisect is at work"):
        Journal(path)
    first.close()
    reread(path)


def test_a_child_process_that_lives_on_does_not_keep_the_journal_locked(path: Path) -> None:
    journal = Journal(path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        journal.close()
        reread(path)
    finally:
        child.communicate(b"\n")


def test_a_full_disk_is_said_in_one_line_that_says_how_to_go_on(path: Path) -> None:
    journal = Journal(path)
    journal._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115 - closed below
    with pytest.raises(
        CannotWrite, match="No space left on device; make room there and go on with `numbisect resume"
    ):
        journal.done("a", {"n": 1})
    journal.close()
