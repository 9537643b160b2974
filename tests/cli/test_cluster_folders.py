"""Folders of a triage's clusters: one for each cause, whatever its name reads like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bisector.cli.triage_command import MOST_OF_NAME, folder_names


def test_a_cause_names_its_folder() -> None:
    assert folder_names(["cast:float16", "fma:sub@mul + inline:aten.mul"]) == [
        "cast-float16",
        "fma-sub-mul-inline-aten.mul",
    ]


def test_causes_that_read_alike_have_folders_of_their_own() -> None:
    long = "match:" + "x" * MOST_OF_NAME
    names = folder_names([f"{long}a", f"{long}b", "fma:a@b", "fma-a-b", "Fma:a@b"])
    assert len({name.lower() for name in names}) == 5
    assert folder_names([f"{long}b", f"{long}a"]) == [names[1], names[0]], "in whatever order they come"


@given(keys=st.lists(st.text(min_size=1), unique=True))
def test_no_two_causes_share_a_folder(keys: list[str]) -> None:
    names = folder_names(keys)
    assert len(set(names)) == len(keys)
    assert not any("/" in name or name in ("", ".", "..") for name in names)
