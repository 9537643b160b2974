"""An index of small wheels, and a repro for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builds.fake_index import REPRO, FakeIndex, served


@pytest.fixture
def index(tmp_path: Path) -> FakeIndex:
    return FakeIndex(tmp_path / "simple")


@pytest.fixture
def url(index: FakeIndex) -> Iterator[str]:
    with served(index.folder) as address:
        yield address


@pytest.fixture
def repro(tmp_path: Path) -> Path:
    path = tmp_path / "repro.py"
    path.write_text(REPRO)
    return path
