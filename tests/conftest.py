"""The order of the tests: whole runs of numbisect first, so that the processes that share the files end
together (xdist's own order is by the number of tests, and the longest files have the fewest)."""

from __future__ import annotations

import pytest

# Folders whose tests take seconds each; those of the others take milliseconds.
LONG = ("e2e", "tests", "attached", "builds", "subject", "runner", "session", "inductor")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return LONG.index(folder) if folder in LONG else len(LONG)
