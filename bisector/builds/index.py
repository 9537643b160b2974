"""What a package index offers of torch: the wheels that this Python can install, and the builds in them.

An index is a page of links (PEP 503) or the same as JSON (PEP 691); the nightly index of PyTorch is a page,
without times of upload, and shows the newest 60 versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import requests
from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple, UnsupportedRepoVersionError

from ..errors import MissingTool

TIMEOUT_S = 30.0
_NIGHT = re.compile(r"(\d{4})(\d{2})(\d{2})")  # of the number behind `.dev`


@dataclass(frozen=True)
class Wheel:
    """A file of an index. index: the index's URL; build: its build tag, 0 without one; uploaded: None where
    the index does not say it."""

    filename: str
    index: str
    url: str
    version: Version
    build: int
    sha256: str | None
    yanked: bool
    uploaded: datetime | None

    @property
    def night(self) -> date | None:
        """The date of a nightly; None of a release, and of a development version that has no date."""
        found = _NIGHT.fullmatch(str(self.version.dev)) if self.version.is_devrelease else None
        try:
            return date(*map(int, found.groups())) if found else None
        except ValueError:
            return None

    @property
    def is_release(self) -> bool:
        return not self.version.is_prerelease


def wheels(index_url: str, tags: Iterable[Tag] | None = None) -> list[Wheel]:
    """The best wheel of each version of torch for these tags (None: of this Python), oldest version first.

    Yanked files are there too: a user may name one. Raises MissingTool where the index cannot be read.
    """
    ranks = {tag: rank for rank, tag in enumerate(sys_tags() if tags is None else tags)}
    fitting = []
    for wheel, offered in filter(None, (_wheel(p, index_url) for p in _packages(index_url))):
        fits = [ranks[tag] for tag in offered if tag in ranks]
        if fits:
            fitting.append((wheel.version, not wheel.yanked, -min(fits), wheel.build, wheel))
    best = {version: wheel for version, *_, wheel in sorted(fitting, key=lambda known: known[:-1])}
    return list(best.values())


def releases(files: Sequence[Wheel]) -> list[Wheel]:
    """The releases that are not yanked, oldest first; of equal versions with different labels the last."""
    public = {w.version.public: w for w in files if w.is_release and not w.yanked}
    return sorted(public.values(), key=lambda w: w.version)


def nightlies(files: Sequence[Wheel]) -> list[Wheel]:
    """The nightlies by date. Their version steps up in the middle, where a release branches off."""
    by_night = {w.night: w for w in files if w.night is not None and not w.yanked}
    return [w for _, w in sorted(by_night.items(), key=lambda item: str(item[0]))]


def _packages(index_url: str) -> list[DistributionPackage]:
    problem = f"{index_url}: the index cannot be read"
    try:
        with PyPISimple(index_url) as client:
            return client.get_project_page("torch", timeout=TIMEOUT_S).packages
    except NoSuchProjectError as error:
        raise MissingTool(f"{index_url}: no torch there; name another index with --index-url") from error
    except requests.HTTPError as error:
        answer = "" if error.response is None else f" (HTTP {error.response.status_code})"
        raise MissingTool(f"{problem}{answer}; name another with --index-url") from error
    except (requests.RequestException, UnsupportedRepoVersionError, ValueError) as error:
        advice = "check the network, or name another with --index-url"
        raise MissingTool(f"{problem} ({type(error).__name__}); {advice}") from error


def _wheel(package: DistributionPackage, index_url: str) -> tuple[Wheel, frozenset[Tag]] | None:
    """The file with the tags that it is for; None of a file that is no wheel of torch."""
    try:
        name, version, build, tags = parse_wheel_filename(package.filename)
    except InvalidWheelFilename:
        return None
    if name != "torch":
        return None
    wheel = Wheel(
        filename=package.filename,
        index=index_url,
        url=package.url,
        version=version,
        build=build[0] if build else 0,
        sha256=package.digests.get("sha256"),
        yanked=package.is_yanked,
        uploaded=package.upload_time,
    )
    return wheel, tags
