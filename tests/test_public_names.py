"""The names that programs import."""

from __future__ import annotations

import inspect

import pytest

import bisector


@pytest.mark.parametrize("name", bisector.__all__)
def test_a_public_name_can_be_imported(name: str) -> None:
    found = getattr(bisector, name)
    assert inspect.isclass(found) or callable(found)
    assert found.__name__ == name


def test_a_name_that_is_not_public_is_refused_like_that_of_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bisector.nothing  # noqa: B018
