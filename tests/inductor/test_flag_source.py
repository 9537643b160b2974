"""What is read from the text of a config module."""

from __future__ import annotations

import pytest

from bisector.inductor.flags.source import Written, settings

MODULE = '''
import os
from torch.utils._config_module import Config


def from_two() -> bool:
    if "FIRST" in os.environ:
        return os.environ.get("SECOND") == "1"
    return False


# Says what it does
# on two lines.
plain = True

with_type: int = 3  # behind it
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
    # of the class
    simdlen: int | None = None

    class inner:
        deep = 1
'''


@pytest.fixture(scope="module")
def found() -> dict[str, Written]:
    return settings(MODULE)


def test_each_setting_has_the_comment_above_it_and_the_one_behind(found: dict[str, Written]) -> None:
    assert found["plain"].comment == "Says what it does on two lines."
    assert found["with_type"].comment == "behind it"
    assert found["read"].comment == ""


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("plain", None),
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
    found: dict[str, Written], name: str, env: str | None
) -> None:
    assert found[name].env == env


def test_settings_of_a_class_have_its_name_before_theirs(found: dict[str, Written]) -> None:
    assert found["cpp.simdlen"].comment == "of the class"
    assert {"cpp.inner.deep"} <= found.keys()


def test_a_line_is_counted_from_one(found: dict[str, Written]) -> None:
    assert MODULE.splitlines()[found["plain"].line - 1] == "plain = True"
