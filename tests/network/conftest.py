"""The newest release of torch, installed beside the one that the tests run with."""

from __future__ import annotations

import pytest

from bisector.builds.predicate import Interpreter
from studies.versions.matrix import environments

NEWEST = "2.15.0"


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    ((_, interpreter),) = environments([NEWEST], tmp_path_factory.mktemp("environments"))
    return interpreter
