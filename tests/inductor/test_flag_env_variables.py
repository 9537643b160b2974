"""What is read from the text of a config module."""

from __future__ import annotations

import pytest

from bisector.inductor.flags.installed import of_settings

MODULE = '''
import os
from torch.utils._config_module import Config


def from_two() -> bool:
    if "FIRST" in os.environ:
        return os.environ.get("SECOND") == "1"
    return False


plain = True
with_type: int = 3
called = from_two()
read: bool = os.environ.get("READ", "0") == "1"
got = os.getenv("GOT")
taken = int(os.environ["TAKEN"]) if "TAKEN" in os.environ else 1
made = Config(default=1, env_name_force="FORCED")
listed = Config(default=1, env_name_default=["LISTED", "OLDER"])

if plain:
    branch = os.environ.get("BRANCH")
else:
    branch = None


class cpp:
    simdlen = os.environ.get("TORCHINDUCTOR_SIMDLEN")

    class inner:
        deep = 1
'''


@pytest.fixture(scope="module")
def found() -> dict[str, str | None]:
    return of_settings(MODULE)


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("plain", None),
        ("with_type", None),
        ("called", "SECOND"),
        ("read", "READ"),
        ("got", "GOT"),
        ("taken", "TAKEN"),
        ("made", "FORCED"),
        ("listed", "LISTED"),
        ("branch", "BRANCH"),
    ],
)
def test_the_variable_is_the_one_that_the_value_is_read_from(
    found: dict[str, str | None], name: str, env: str | None
) -> None:
    assert found[name] == env


def test_settings_of_a_class_have_its_name_before_theirs(found: dict[str, str | None]) -> None:
    assert found["cpp.simdlen"] == "TORCHINDUCTOR_SIMDLEN"
    assert {"cpp.inner.deep"} <= found.keys()
