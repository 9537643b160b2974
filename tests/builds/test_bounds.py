"""Bounds as users write them."""

from __future__ import annotations

import pytest

from bisector.builds.bounds import Bound, BoundKind, parse_bound
from bisector.errors import BadOption


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        ("2.11", BoundKind.RELEASE, "2.11.0"),
        ("v2.12.1", BoundKind.RELEASE, "2.12.1"),
        ("2.12.1", BoundKind.RELEASE, "2.12.1"),
        ("2026-08-14", BoundKind.NIGHTLY, "2026-08-14"),
        ("CF30153c4c", BoundKind.COMMIT, "cf30153c4c"),
        ("installed", BoundKind.INSTALLED, "installed"),
        (" latest ", BoundKind.LATEST, "latest"),
    ],
)
def test_each_form_is_known(text: str, kind: BoundKind, meant: str) -> None:
    assert parse_bound(text) == Bound(kind, meant)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("newest", "write a release"),
        ("", "write a release"),
        ("2026-02-30", "there is no such day"),
        ("2.14.0.dev20260801", "a nightly is named by its date"),
        ("main~3", "write a release"),
    ],
)
def test_what_is_no_bound_is_said_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(BadOption, match=advice):
        parse_bound(text)
