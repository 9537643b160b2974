"""The commit of a wheel, read over real HTTP without the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.builds import history
from tests.builds.fake_index import FakeIndex, Quiet, WithRanges, served

COMMIT = "c0ffee" * 6 + "c0ff"
LARGE = f"DATA = {bytes(200_000)!r}\n"  # what nobody should have to fetch


def test_the_commit_comes_from_a_part_of_the_wheel(index: FakeIndex) -> None:
    wheel = index.add("2.13.0.dev20260701+cpu", init=LARGE, commit=COMMIT)
    WithRanges.sent.clear()
    with served(index.folder, WithRanges) as url:
        assert history.commit_of_wheel(f"{url}/torch/{wheel.name.replace('+', '%2B')}#sha256=0") == COMMIT
    assert 0 < sum(WithRanges.sent) < wheel.stat().st_size / 2


@pytest.mark.parametrize(
    ("fault", "handler"),
    [("no_ranges", Quiet), ("broken", WithRanges), ("unknown", WithRanges), ("gone", Quiet)],
)
def test_where_it_cannot_be_read_it_is_not_known(
    fault: str, handler: type[Quiet], index: FakeIndex
) -> None:
    wheel = index.add("2.13.0", broken=fault == "broken", commit="Unknown" if fault == "unknown" else COMMIT)
    name = "gone.whl" if fault == "gone" else wheel.name
    with served(index.folder, handler) as url:
        assert history.commit_of_wheel(f"{url}/torch/{name}") is None


def test_a_server_that_is_not_there_is_no_error() -> None:
    assert history.commit_of_wheel("http://127.0.0.1:9/torch.whl") is None


def test_an_environment_without_a_version_file_has_none(tmp_path: Path) -> None:
    assert history.commit_of_site(tmp_path) is None
