"""A recorded command, run once for all tests that look at what it left."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from .recording import Ended, read, replayed
from .runs import RUNS


@pytest.fixture(scope="session")
def replay_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    """The end of the command of this recording."""

    @cache
    def ended(name: str) -> Ended:
        return replayed(RUNS[name], read(name), tmp_path_factory.mktemp("replay") / "work")

    return ended
