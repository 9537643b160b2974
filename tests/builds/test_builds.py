"""`numbisect builds` as a user runs it: real uv, real environments, real HTTP, and wheels that are tiny."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.builds.fake_index import REPRO, FakeIndex
from tests.command import numbisect

FIRST_NIGHT = date(2026, 7, 1)
SCHEMA = Path(__file__).parents[2] / "bisector/report/result.schema.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))


def asked(repro: Path, url: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    out = ("--out", repro.parent / "run", "--json", "-")
    done = numbisect("builds", repro, "--index-url", url, *out, *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    result = json.loads(done.stdout)
    VALIDATOR.validate(result)
    found: dict[str, Any] = result["builds"]
    return found


def add_releases(index: FakeIndex, differences: dict[str, float | None]) -> None:
    for version, difference in differences.items():
        index.add(version, difference)


def night(day: int) -> str:
    return str(FIRST_NIGHT + timedelta(days=day))


def add_nights(index: FakeIndex, days: Sequence[int], bad_from: int) -> None:
    """Nightlies whose version steps up in the middle of July."""
    for day in days:
        number = "2.13.0" if day < 15 else "2.14.0"
        stamp = f"{FIRST_NIGHT + timedelta(days=day):%Y%m%d}"
        index.add(f"{number}.dev{stamp}+cpu", 1e-3 if day >= bad_from else 0.0)


def names(found: dict[str, Any]) -> tuple[str, str]:
    return found["before"]["name"], found["after"]["name"]


def test_a_change_between_releases_is_cut_down_to_patch_releases(
    index: FakeIndex, url: str, repro: Path
) -> None:
    add_releases(
        index,
        {"2.9.0": 0.0, "2.10.0": 0.0, "2.10.1": 0.0, "2.10.2": 0.5, "2.11.0": 0.5, "2.12.0": 0.5},
    )
    found = asked(repro, url, "--good", "2.9", "--bad", "2.12")
    assert names(found) == ("2.10.1", "2.10.2")
    assert (found["answer"], found["confirmed"], found["moved"]) == ("release range", True, ["compiled"])
    assert found["tried"][0]["name"] == "2.12.0"
    assert "nightlies: no index of nightlies was read" in found["not_established"]


def test_fifty_eight_nights_with_every_trouble_give_the_right_one(
    index: FakeIndex, url: str, repro: Path
) -> None:
    missing, same_commit, broken, wrong_hash, yanked, bad_from = (20, 21), 31, 43, 12, 50, 44
    for day in range(60):
        if day in missing:
            continue
        number = "2.13.0" if day < 15 else "2.14.0"
        stamp = f"{FIRST_NIGHT + timedelta(days=day):%Y%m%d}"
        index.add(
            f"{number}.dev{stamp}+cpu",
            1e-3 if day >= bad_from else 0.0,
            commit="c" * 40 if day in (same_commit - 1, same_commit) else None,
            broken=day == broken,
            wrong_hash=day == wrong_hash,
            yanked=day == yanked,
            build="1" if day == 40 else "",
        )
    found = asked(repro, url, "--good", night(0), "--bad", night(59))
    assert names(found) == (night(broken - 1), night(bad_from))
    assert found["skipped"] == [night(broken)]
    assert (found["answer"], found["confirmed"]) == ("nightly range", True)
    assert len(found["tried"]) <= 10


def test_a_night_of_the_same_commit_is_not_run_again(index: FakeIndex, url: str, repro: Path) -> None:
    for day in range(3):
        stamp = f"{FIRST_NIGHT + timedelta(days=day):%Y%m%d}"
        commit = "c" * 40 if day < 2 else None
        index.add(f"2.13.0.dev{stamp}", 0.0 if day < 2 else 1.0, commit=commit)
    found = asked(repro, url, "--good", night(0), "--bad", night(2))
    assert names(found) == (night(1), night(2))
    reasons = {build["name"]: build["reason"] for build in found["tried"]}
    assert reasons[night(1)] == f"the same commit as {night(0)}"


def test_a_night_that_cannot_be_had_stands_for_no_other_of_its_commit(
    index: FakeIndex, url: str, repro: Path
) -> None:
    for day in range(4):
        stamp = f"{FIRST_NIGHT + timedelta(days=day):%Y%m%d}"
        difference = 1.0 if day == 3 else 0.0
        commit = "c" * 40 if day in (1, 2) else None
        index.add(f"2.13.0.dev{stamp}", difference, commit=commit, broken=day == 1)
    found = asked(repro, url, "--good", night(0), "--bad", night(3))
    assert names(found) == (night(2), night(3))


def test_releases_lead_to_the_nights_between_them(index: FakeIndex, url: str, repro: Path) -> None:
    add_releases(index, {"2.12.0": 0.0, "2.13.0": 0.0, "2.14.0": 1e-3})
    add_nights(index, range(10, 40), bad_from=23)
    found = asked(repro, url, "--good", "2.12", "--bad", "2.14.0")
    assert names(found) == (night(22), night(23))
    assert [step["rung"] for step in found["steps"]] == ["releases", "patch releases", "nightlies"]


def test_nights_that_the_index_no_longer_has_leave_a_range_of_releases(
    index: FakeIndex, url: str, repro: Path
) -> None:
    add_releases(index, {"2.10.0": 0.0, "2.11.0": 1e-3, "2.14.0": 1e-3})
    add_nights(index, range(10, 20), bad_from=0)
    found = asked(repro, url, "--good", "2.10", "--bad", "2.14")
    assert names(found) == ("2.10.0", "2.11.0")
    ended = f"nightlies: the index has the nights {night(10)} to {night(19)}, none between these"
    assert ended in found["not_established"]


def test_without_a_good_build_it_walks_back_to_one(index: FakeIndex, url: str, repro: Path) -> None:
    add_releases(index, {f"2.{minor}.0": 1.0 if minor >= 5 else 0.0 for minor in range(1, 15)})
    found = asked(repro, url, "--bad", "latest")
    assert names(found) == ("2.4.0", "2.5.0")


def test_bad_as_far_back_as_there_are_builds_is_an_answer(index: FakeIndex, url: str, repro: Path) -> None:
    add_releases(index, {f"2.{minor}.0": 1.0 for minor in range(1, 8)})
    found = asked(repro, url, "--bad", "2.7", status=1)
    assert found["reason"] == "it diverges as far back as 2.1.0, the oldest that this Python can install"


def test_what_fixed_it_is_the_opposite_question(index: FakeIndex, url: str, repro: Path) -> None:
    add_releases(index, {"2.10.0": 1.0, "2.11.0": 1.0, "2.12.0": 0.0, "2.13.0": 0.0})
    found = asked(repro, url, "--find-fix", "--bad", "2.10", "--good", "latest")
    assert names(found) == ("2.11.0", "2.12.0")
    assert found["looked_for"] == "fixed"


def test_a_build_that_cannot_be_imported_is_never_bad(index: FakeIndex, url: str, repro: Path) -> None:
    index.add("2.10.0", 0.0)
    index.add("2.11.0", init="raise ImportError('libcudnn.so.9: cannot open shared object file')\n")
    index.add("2.12.0", 1.0)
    found = asked(repro, url, "--good", "2.10", "--bad", "2.12")
    assert (names(found), found["skipped"]) == (("2.10.0", "2.12.0"), ["2.11.0"])
    (skipped,) = (b for b in found["tried"] if b["name"] == "2.11.0")
    assert skipped["reason"] == "ImportError: libcudnn.so.9: cannot open shared object file"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--good", "2.10", "--bad", "2.10.0"], 2, "--good and --bad are both 2.10; name two builds"),
        (["--good", "2.12", "--bad", "2.10"], 2, "--good 2.12.0 is not older than --bad 2.10.0"),
        (["--good", "2.3", "--bad", "2.12"], 2, "2.3.0: not on the index for this Python; it has 2.10.0"),
        (["--good", "2026-07-01", "--bad", "2.12"], 2, "it has no nightlies"),
        (["--good", "soon", "--bad", "2.12"], 2, "soon: not a build; write a release"),
        (["--good", "2.10", "--bad", "2.11"], 1, "2.11.0 agrees; nothing to find before it"),
        (["--good", "2.12", "--bad", "2.13"], 1, "2.12.0 and 2.13.0 both diverge; name an older --good"),
        (["--good", "2.10", "--bad", "2.14"], 3, "2.14.0 cannot tell"),
        (["--find-fix", "--bad", "2.10"], 2, "--find-fix needs --good"),
    ],
)
def test_a_range_without_an_answer_is_one_line_that_says_what_to_do(
    arguments: list[str], status: int, said: str, index: FakeIndex, url: str, repro: Path
) -> None:
    add_releases(index, {"2.10.0": 0.0, "2.11.0": 0.0, "2.12.0": 1.0, "2.13.0": 1.0, "2.14.0": None})
    done = numbisect("builds", repro, "--index-url", url, "--out", repro.parent / "run", *arguments, "-q")
    assert done.returncode == status, done.stdout + done.stderr
    told = " ".join((done.stdout if status != 2 else done.stderr).split())
    assert said in told
    assert "Traceback" not in done.stderr


def test_a_target_without_a_repro_is_one_line(tmp_path: Path) -> None:
    done = numbisect("builds", tmp_path, "--bad", "2.12")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"numbisect: {tmp_path}: no repro there; name a repro, or the folder of a run that has one"
    ]


def test_a_spent_budget_is_gone_on_with_and_no_build_is_run_twice(
    index: FakeIndex, url: str, repro: Path
) -> None:
    add_releases(index, {f"2.{minor}.0": 1.0 if minor >= 6 else 0.0 for minor in range(1, 15)})
    counted = repro.parent / "count"
    # A run of a second: the two ends alone spend the budget, on however fast a machine.
    slow = f"import time; time.sleep(1); open({str(counted)!r}, 'a').write('x')\n"
    repro.write_text(slow + REPRO)
    arguments = ("--good", "2.1", "--bad", "2.14", "--prefetch", "0")
    found = asked(repro, url, *arguments, "--budget", "1", status=3)
    assert found["reason"] == "the budget of 1 s is spent"
    before = len(counted.read_text())
    done = numbisect("resume", repro.parent / "run", "--json", "-")
    resumed = json.loads(done.stdout)["builds"]
    assert (done.returncode, names(resumed)) == (0, ("2.5.0", "2.6.0"))
    # Each of the builds once, and the last two once more.
    assert len(counted.read_text()) == len(resumed["tried"]) + 2 > before


def test_the_report_is_printed_again_and_fits_an_issue(index: FakeIndex, url: str, repro: Path) -> None:
    add_releases(index, {"2.10.0": 0.0, "2.11.0": 1.0})
    asked(repro, url, "--good", "2.10", "--bad", "2.11")
    folder = repro.parent / "run"
    text = numbisect("report", folder).stdout
    assert "The divergence was introduced between 2.10.0 (agrees) and 2.11.0 (diverges)" in text
    assert "https://github.com/pytorch/pytorch/compare/" in text
    assert "| 2.11.0 |" in (folder / "report.md").read_text()


# A torch whose divergence is behind a setting, as the real one has them in its config modules.
BEHIND_A_SETTING = """
from .version import __version__, git_version
from . import _inductor, version
from ._inductor import config


class Tensor:
    def __init__(self, value):
        self.value = value


def __getattr__(name):
    if name == "DIFFERENCE":
        return 1.0 if config.{setting} else 0.0
    raise AttributeError(name)
"""


@pytest.mark.parametrize(
    ("decisive", "alone"),
    [("fast", [["inductor.fast"]]), ("no_such_thing", [])],
    ids=["the default decides", "another change does"],
)
def test_a_default_that_changed_is_told_from_code_that_did(
    index: FakeIndex, url: str, repro: Path, decisive: str, alone: list[list[str]]
) -> None:
    for version, fast in (("2.11.0", False), ("2.12.0", True)):
        settings = {"fast": fast, "other": 3 if fast else 2, "same": 1, "no_such_thing": fast}
        module = "\n".join(f"{name} = {value}" for name, value in settings.items())
        listed = [name for name in settings if name != "no_such_thing"]
        index.add(
            version,
            init=BEHIND_A_SETTING.format(setting=decisive),
            more={
                "torch/_inductor/__init__.py": "",
                "torch/_inductor/config.py": f"{module}\n_config = {{n: globals()[n] for n in {listed}}}\n",
            },
        )
    found = asked(repro, url, "--good", "2.11", "--bad", "2.12")
    assert found["changed_defaults"] == {
        "older": {"inductor.fast": False, "inductor.other": 2},
        "newer": {"inductor.fast": True, "inductor.other": 3},
        "decisive": alone,
    }
    text = " ".join(numbisect("report", repro.parent / "run").stdout.split())
    said = "The default of inductor.fast changed from False to True"
    assert (said in text) == bool(alone)
