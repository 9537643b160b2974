"""Environments made by the real uv and the real pip, of tiny wheels from an index on loopback."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bisector.builds.environments import CannotInstall, Environments, Fetching
from bisector.builds.index import Wheel, wheels
from bisector.builds.predicate import ask
from bisector.core.outcome import Outcome
from bisector.errors import MissingTool
from tests.builds.fake_index import FakeIndex, served

BIG = 2**40


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    found = Environments(tmp_path / "builds", BIG)
    assert found.uv is not None
    return found


def the(files: list[Wheel], version: str) -> Wheel:
    return next(w for w in files if str(w.version) == version)


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.live)])
def test_the_very_build_is_asked(
    installer: str, index: FakeIndex, url: str, environments: Environments, repro: Path
) -> None:
    if installer == "pip":
        environments.uv = None
    index.add("2.12.0", difference=0.0, commit="a" * 40)
    index.add("2.13.0+cpu", difference=0.5)
    files = wheels(url)
    good = ask(environments.interpreter(the(files, "2.12.0")), repro, 30.0)
    bad = ask(environments.interpreter(the(files, "2.13.0+cpu")), repro, 30.0)
    assert (good.outcome, good.line["torch"], good.line["git"]) == (Outcome.PASS, "2.12.0", "a" * 40)
    assert (bad.outcome, bad.line["torch"]) == (Outcome.FAIL, "2.13.0+cpu")
    assert str(environments.folder) in bad.line["file"]
    assert good.line["eager"] == bad.line["eager"] != bad.line["compiled"]


def test_an_environment_is_made_once(
    index: FakeIndex, url: str, environments: Environments, repro: Path
) -> None:
    served_file = index.add("2.12.0")
    (wheel,) = wheels(url)
    first = environments.interpreter(wheel)
    served_file.unlink()
    assert environments.interpreter(wheel) == first
    assert ask(first, repro, 30.0).outcome is Outcome.PASS


@pytest.mark.parametrize("fault", ["broken", "wrong_hash"])
def test_a_file_that_is_not_what_the_index_says_is_no_build_and_leaves_nothing(
    fault: str, index: FakeIndex, url: str, environments: Environments
) -> None:
    index.add("2.12.0", **{fault: True})
    (wheel,) = wheels(url)
    with pytest.raises(CannotInstall) as raised:
        environments.interpreter(wheel)
    assert "\n" not in str(raised.value)
    assert list(environments.folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_build(
    index: FakeIndex, url: str, environments: Environments
) -> None:
    index.add("2.12.0")
    (wheel,) = wheels(url)
    environments.folder.write_text("a file stands where the folder should be")
    with pytest.raises(CannotInstall, match="File exists"):
        environments.interpreter(wheel)


@pytest.mark.live
def test_a_server_that_went_away_is_no_fault_of_the_build(
    index: FakeIndex, environments: Environments
) -> None:
    index.add("2.12.0")
    with served(index.folder) as address:
        (wheel,) = wheels(address)
    with pytest.raises(MissingTool, match=r"the index is gone; check the network, then `numbisect resume`"):
        environments.interpreter(wheel)
    assert list(environments.folder.iterdir()) == []


def test_a_full_disk_is_no_fault_of_the_build(
    index: FakeIndex, url: str, environments: Environments, tmp_path: Path
) -> None:
    """In uv's words, as a run on a file system of six megabytes gave them; that run cannot be made here."""
    index.add("2.12.0")
    (wheel,) = wheels(url)
    script = tmp_path / "uv"
    script.write_text(
        "#!/bin/sh\n"
        "[ $1 = venv ] && exec mkdir -p $6/lib/python3/site-packages\n"
        "echo 'error: failed to copy file to torch/.tmp: No space left on device (os error 28)' >&2; exit 2\n"
    )
    script.chmod(0o755)
    environments.uv = str(script)
    with pytest.raises(MissingTool, match="no space left on device; free some, or lower --cache-gib"):
        environments.interpreter(wheel)
    assert list(environments.folder.iterdir()) == []


def test_what_an_interrupted_making_left_is_made_anew(
    index: FakeIndex, url: str, environments: Environments, repro: Path
) -> None:
    index.add("2.12.0")
    (wheel,) = wheels(url)
    half = environments.folder / "2.12.0"
    (half / "bin").mkdir(parents=True)
    assert ask(environments.interpreter(wheel), repro, 30.0).outcome is Outcome.PASS


def test_the_environment_used_longest_ago_goes_first(
    index: FakeIndex, url: str, environments: Environments
) -> None:
    for version in ("2.10.0", "2.11.0", "2.12.0"):
        index.add(version)
    ten, eleven, twelve = wheels(url)
    environments.interpreter(ten)
    environments.interpreter(eleven)
    environments.interpreter(ten)
    environments.limit = 0
    environments.interpreter(twelve)
    assert [p.name for p in environments.folder.iterdir()] == ["2.12.0"]
    environments.limit = BIG
    environments.interpreter(ten)
    assert {p.name for p in environments.folder.iterdir()} == {"2.10.0", "2.12.0"}


def fetching(files: list[Wheel], environments: Environments) -> Fetching:
    builds = {str(wheel.version): SimpleNamespace(wheel=wheel) for wheel in files}
    return Fetching(cast(Any, SimpleNamespace(builds=builds)), environments, 1, None)


def test_what_is_fetched_ahead_leaves_the_environment_in_use(
    index: FakeIndex, url: str, environments: Environments
) -> None:
    for version in ("2.10.0", "2.11.0", "2.12.0"):
        index.add(version)
    environments.limit = 0
    source = fetching(wheels(url), environments)
    try:
        in_use = source.interpreter("2.10.0")
        for ahead in ("2.11.0", "2.12.0"):
            source.foresee([ahead])
            source._making[ahead].result()
            assert in_use.python.exists(), "what is asked now"
        assert {p.name for p in environments.folder.iterdir()} == {"2.10.0", "2.12.0"}
        assert source.interpreter("2.12.0").python.exists()
        assert source.interpreter("2.11.0").python.exists(), "made again"
        assert [p.name for p in environments.folder.iterdir()] == ["2.11.0"]
    finally:
        source.close()


def test_an_interrupted_search_does_not_wait_for_a_download(
    index: FakeIndex, url: str, environments: Environments, tmp_path: Path
) -> None:
    index.add("2.12.0")
    script = tmp_path / "uv"
    begins = f"touch {tmp_path}/begun\nsleep 20\nexit 1\n"
    script.write_text(f"#!/bin/sh\n[ $1 = venv ] && exec mkdir -p $6\n{begins}")
    script.chmod(0o755)
    environments.uv = str(script)
    source = fetching(wheels(url), environments)
    source.foresee(["2.12.0"])
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    begun = time.monotonic()
    source.close()
    assert time.monotonic() - begun < 10
    assert list(environments.folder.iterdir()) == [], "nothing half made is left"
    with pytest.raises(CannotInstall, match="interrupted"):
        source._making["2.12.0"].result()
