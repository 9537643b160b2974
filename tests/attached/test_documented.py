"""The programs of docs/fuzzers.md, run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.attached.helpers import run

PAGE = Path(__file__).parents[2] / "docs" / "fuzzers.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PRINTED = [r"(kept: failures/case-\w+\n){3}", r"Outcome\.FAIL VerdictClass\.ELIDED_ROUNDING .*\n"]


@pytest.mark.live
@pytest.mark.parametrize(("program", "printed"), list(zip(PROGRAMS, PRINTED, strict=True)))
def test_a_program_shown_does_what_is_said(program: str, printed: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(program)
    done = run(sys.executable, "shown.py", folder=tmp_path)
    assert re.fullmatch(printed, done.stdout), done.stdout + done.stderr
