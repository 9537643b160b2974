"""What is read of an index that is served over HTTP."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from bisector.builds.index import Wheel, nightlies, releases, wheels
from bisector.errors import MissingTool
from tests.builds.fake_index import PYTHON, FakeIndex, served


def versions(files: list[Wheel]) -> list[str]:
    return [str(w.version) for w in files]


def test_releases_come_in_the_order_of_versions_not_of_names(index: FakeIndex, url: str) -> None:
    for version in ("2.10.0", "2.9.1", "2.9.0", "2.11.0.dev20260101", "2.11.0rc1"):
        index.add(version)
    assert versions(releases(wheels(url))) == ["2.9.0", "2.9.1", "2.10.0"]


def test_nightlies_come_by_date_where_the_version_steps_up(index: FakeIndex, url: str) -> None:
    start = date(2026, 7, 1)
    nights = [start + timedelta(days=d) for d in range(10) if d != 4]  # a night is missing
    for night in reversed(nights):
        number = "2.13.0" if night < date(2026, 7, 6) else "2.14.0"
        index.add(f"{number}.dev{night:%Y%m%d}+cpu")
    index.add("2.14.0.dev1+cpu")
    found = nightlies(wheels(url))
    assert [w.night for w in found] == nights
    assert releases(wheels(url)) == []


def test_a_file_for_another_python_or_machine_is_left_out(index: FakeIndex, url: str) -> None:
    index.add("2.12.0")
    index.add("2.13.0", tag=f"{PYTHON}-{PYTHON}-win_amd64")
    index.add("2.14.0", tag="cp27-cp27m-manylinux_2_17_x86_64")
    assert versions(wheels(url)) == ["2.12.0"]


def test_of_two_files_of_one_version_the_one_with_the_higher_build_tag_is_taken(
    index: FakeIndex, url: str
) -> None:
    index.add("2.10.0")
    index.add("2.10.0", build="3")
    (found,) = wheels(url)
    assert found.build == 3


def test_a_yanked_release_is_known_but_not_walked_over(index: FakeIndex, url: str) -> None:
    index.add("2.12.0")
    index.add("2.13.0", yanked=True)
    assert versions(wheels(url)) == ["2.12.0", "2.13.0"]
    assert versions(releases(wheels(url))) == ["2.12.0"]


def test_names_that_are_no_wheels_of_torch_are_passed_over(index: FakeIndex, url: str) -> None:
    index.add("2.12.0")
    index.rows += ['<a href="torch-2.12.0.tar.gz">torch-2.12.0.tar.gz</a>', '<a href="x">torch-x.whl</a>']
    index.add("2.13.0")
    assert versions(wheels(url)) == ["2.12.0", "2.13.0"]


def test_an_index_without_torch_says_so_in_one_line(index: FakeIndex, url: str) -> None:
    index.folder.mkdir()
    with pytest.raises(MissingTool, match="no torch there; name another index with --index-url"):
        wheels(url)


def test_a_server_that_is_not_there_is_told_from_an_index_without_torch(tmp_path: Path) -> None:
    with served(tmp_path) as url:
        pass
    with pytest.raises(MissingTool, match=r"ConnectionError.*check the network"):
        wheels(url)
