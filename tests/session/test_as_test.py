"""A test is claimed only if its comparison fails in a fresh process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector.core.case import WHOLE, Wording
from bisector.session import as_test
from bisector.session.answer import Answer
from bisector.session.writing import Shown

COMPARES = """
import torch

def test_it():
    torch.testing.assert_close(torch.ones(2), torch.{}(2))
"""
ASSERTS = """
def test_it():
    assert False, "inside the compiler"
"""
BREAKS = """
def test_it():
    raise RuntimeError("no such backend")
"""


def made(written: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """The answer after `make`, where the worker wrote this."""
    monkeypatch.setattr(as_test, "written_as_test", lambda *given: written)
    answer = Answer("case.py", "run", {})
    session = SimpleNamespace(
        run=SimpleNamespace(test=folder / "test_repro.py"),
        clock=SimpleNamespace(stage=lambda name: contextlib.nullcontext()),
        timeout_s=60.0,
        progress=lambda *said: None,
    )
    as_test.make(session, None, Shown(WHOLE, Wording.PUBLIC, None), answer)  # type: ignore[arg-type]
    return answer


def test_a_comparison_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = COMPARES.format("zeros")
    answer = made({"text": text, "name": "test_it"}, tmp_path, monkeypatch)
    assert (answer.test, answer.notes) == ("test_repro.py", [])
    assert (tmp_path / "test_repro.py").read_text() == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (COMPARES.format("ones"), "(it passes)"),
        (ASSERTS, "(AssertionError: inside the compiler)"),
        (BREAKS, "(RuntimeError: no such backend)"),
        ("import nothing_of_this_name", "(ModuleNotFoundError: No module named 'nothing_of_this_name')"),
    ],
)
def test_a_test_that_passes_or_breaks_is_not_kept(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = made({"text": text, "name": "test_it"}, tmp_path, monkeypatch)
    assert answer.test is None
    assert answer.notes == [f"the test of this case does not fail in a fresh process {said}"]
    assert list(tmp_path.iterdir()) == []


def test_why_no_test_could_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = made({"error": "CannotWrite: a reason"}, tmp_path, monkeypatch)
    assert (answer.test, answer.notes) == (None, ["no test could be written: CannotWrite: a reason"])
