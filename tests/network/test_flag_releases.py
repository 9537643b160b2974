"""The release that the catalogue says a flag is in since, against the config modules of every release.

A wheel is a zip archive, and the index answers requests for ranges of bytes: a few hundred kilobytes of each
release are read.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from typing import Any

import pytest

from bisector.core.flags import Flag
from bisector.explain.flags.curated import catalogue
from bisector.inductor.flags.installed import of_settings

pytestmark = pytest.mark.network

FIRST = 1  # 2.0 has none of these config modules on this Python
MODULES = {"inductor": "_inductor", "functorch": "_functorch", "dynamo": "_dynamo"}


class Remote(io.RawIOBase):
    """A file behind a URL, read by ranges."""

    def __init__(self, url: str) -> None:
        self.url, self.position = url, 0
        with urllib.request.urlopen(self._request(0, 0), timeout=60) as answer:
            self.size = int(answer.headers["Content-Range"].rpartition("/")[2])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        return self.position

    def tell(self) -> int:
        return self.position

    def readinto(self, buffer: Any) -> int:
        last = min(self.position + len(buffer), self.size) - 1
        if last < self.position:
            return 0
        with urllib.request.urlopen(self._request(self.position, last), timeout=120) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)

    def _request(self, first: int, last: int) -> urllib.request.Request:
        return urllib.request.Request(self.url, headers={"Range": f"bytes={first}-{last}"})


def wheel_url(release: str) -> str | None:
    """Where pip would take that release of torch from, in its smallest form; None where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps",
                "--report", "-", "--target", folder, "--only-binary", ":all:", "--python-version", "3.11",
                "--platform", "macosx_14_0_arm64", f"torch=={release}",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return str(json.loads(done.stdout)["install"][0]["download_info"]["url"]) if done.stdout else None


@pytest.fixture(scope="module")
def releases() -> dict[str, set[str]]:
    """{"2.1": names of all settings, …} of every minor release on the index, oldest first."""
    found: dict[str, set[str]] = {}
    for minor in range(FIRST, 100):
        if (url := wheel_url(f"2.{minor}.0")) is None:
            break
        with zipfile.ZipFile(io.BufferedReader(Remote(url), 1 << 16)) as wheel:
            found[f"2.{minor}"] = {
                f"{family}.{name}"
                for family, package in MODULES.items()
                for name in of_settings(wheel.read(f"torch/{package}/config.py").decode())
            }
    return found


@pytest.mark.parametrize(
    "flag", [f for f in catalogue() if not f.name.startswith("backends.")], ids=lambda flag: flag.name
)
def test_a_flag_is_there_from_the_named_release_on(flag: Flag, releases: dict[str, set[str]]) -> None:
    having = [release for release, names in releases.items() if flag.name in names]
    assert having[:1] == [flag.since]
