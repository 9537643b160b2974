"""`numbisect flags` where it is asked what it cannot do (what it finds: tests/replay/test_flags.py)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.command import numbisect

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
REMAT = ROOT / "repros" / "softmax_remat" / "case.py"


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return numbisect("flags", *arguments, "-q", folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("- 1", "no flags in it"),
        ("a: [", "no YAML"),
    ],
)
def test_a_configuration_that_cannot_be_compared_is_one_line(
    tmp_path: Path, content: str | None, said: str
) -> None:
    other = tmp_path / "other.yaml"
    if content is not None:
        other.write_text(content)
    done = run(tmp_path, str(REMAT), "--against", str(other))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_option_of_the_catalogue_is_refused_beside_a_target(tmp_path: Path) -> None:
    done = run(tmp_path, str(REMAT), "--family", "fma")
    assert done.returncode == 2
    assert "--family is for the catalogue" in done.stderr
