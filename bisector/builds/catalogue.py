"""The builds that can be asked, by the names users write, in the order of their history.

Nightlies of 2.14 come after those of 2.13 and before the release 2.14.0, which branched off them; what a
release branch picked later is no part of the line. Patch releases follow theirs, though what is in them came
from later commits of the line: a bracket of releases is first cut by X.Y.0 alone.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from packaging.version import InvalidVersion, Version

from bisector.core.found_builds import Commit
from bisector.core.ladder import Bracket, Rung, RungEnds

from ..errors import BadOption
from .bounds import Bound, BoundKind
from .index import Wheel, nightlies, releases

INSTALLED = BoundKind.INSTALLED.value
NEAREST = 4  # builds that are named where the one asked for is not there


class BuildKind(enum.Enum):
    NIGHTLY = "nightly"
    RELEASE = "release"  # X.Y.0
    PATCH = "patch release"


@dataclass(frozen=True, order=True)
class Position:
    """Where a build stands in history. released: 0 for nights, which come before the releases, or 1; within:
    the date as a number, or that of the patch."""

    minor: tuple[int, int]
    released: int
    within: int

    @property
    def kind(self) -> BuildKind:
        if not self.released:
            return BuildKind.NIGHTLY
        return BuildKind.PATCH if self.within else BuildKind.RELEASE


@dataclass(frozen=True)
class Build:
    """name: `2.12.1`, `2026-08-14` or `installed`. wheel: None of the build that is installed here."""

    name: str
    position: Position
    wheel: Wheel | None = None


class Catalogue:
    """All builds of some indexes and the one that is installed, by name, oldest first."""

    def __init__(self, files: Sequence[Wheel], installed: str | None) -> None:
        known = [Build(w.version.public, position_of(w.version), w) for w in releases(files)]
        known += [Build(str(w.night), position_of(w.version), w) for w in nightlies(files)]
        self.builds = {build.name: build for build in sorted(known, key=lambda b: b.position)}
        # Whoever names a yanked release means it; it is never walked over.
        self._yanked = {w.version.public: w for w in files if w.is_release and w.yanked}
        if installed is not None:
            self.builds[INSTALLED] = Build(INSTALLED, _installed_position(installed))

    def find(self, bound: Bound) -> str:
        """The name of a build. Raises BadOption, naming what is near, where no index has it."""
        if bound.kind is BoundKind.LATEST:
            return self._latest()
        name = bound.text
        if name in self._yanked and name not in self.builds:
            wheel = self._yanked[name]
            self.builds[name] = Build(name, position_of(wheel.version), wheel)
        if name in self.builds:
            return name
        raise BadOption(f"{bound}: not on the index for this Python; it has {self._near(bound)}")

    def is_older(self, name: str, other: str) -> bool:
        return self.builds[name].position < self.builds[other].position

    def older(self, name: str) -> list[str]:
        """The releases X.Y.0 before it."""
        return [build.name for build in self.of(BuildKind.RELEASE) if self.is_older(build.name, name)]

    def rungs(self) -> list[Rung]:
        patches = Releases(self, BuildKind.RELEASE, BuildKind.PATCH)
        return [Releases(self, BuildKind.RELEASE), patches, Nightlies(self)]

    def precision(self, bracket: Bracket) -> str:
        kinds = {self.builds[name].position.kind for name in (bracket.before, bracket.after)}
        return "nightly range" if kinds == {BuildKind.NIGHTLY} else "release range"

    def commits(self, bracket: Bracket) -> list[Commit]:
        """An index does not know them."""
        return []

    def limits(self, bracket: Bracket) -> list[str]:
        return ["the commit: a build of an index holds those of a day, or of months"]

    def of(self, *kinds: BuildKind) -> list[Build]:
        """The builds of an index of these kinds, oldest first."""
        return [b for b in self.builds.values() if b.wheel is not None and b.position.kind in kinds]

    def between(self, bracket: Bracket, *kinds: BuildKind) -> list[str]:
        """Names of the builds of these kinds between the two ends."""
        low, high = (self.builds[name].position for name in (bracket.before, bracket.after))
        return [b.name for b in self.of(*kinds) if low < b.position < high]

    def _latest(self) -> str:
        known = self.of(BuildKind.RELEASE, BuildKind.PATCH)
        if not known:
            raise BadOption("latest: no release for this Python on the index; name another with --index-url")
        return known[-1].name

    def _near(self, bound: Bound) -> str:
        nightly = bound.kind is BoundKind.NIGHTLY
        known = self.of(BuildKind.NIGHTLY) if nightly else self.of(BuildKind.RELEASE, BuildKind.PATCH)
        if not known:
            return "no nightlies" if nightly else "no releases"
        below = sum(_before(b, bound) for b in known)
        start = max(0, min(below - NEAREST // 2, len(known) - NEAREST))
        return ", ".join(b.name for b in known[start : start + NEAREST])


class Releases:
    """The rung of X.Y.0, or the one below it, of the patch releases too."""

    def __init__(self, catalogue: Catalogue, *kinds: BuildKind) -> None:
        self.name = "patch releases" if BuildKind.PATCH in kinds else "releases"
        self._catalogue = catalogue
        self._kinds = kinds

    def between(self, bracket: Bracket) -> list[str]:
        return self._catalogue.between(bracket, *self._kinds)


class Nightlies:
    """The rung of the nightlies. The index keeps those of about sixty nights."""

    name = "nightlies"

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def between(self, bracket: Bracket) -> list[str]:
        found = self._catalogue.between(bracket, BuildKind.NIGHTLY)
        ends = [self._catalogue.builds[name].position.kind for name in (bracket.before, bracket.after)]
        if found or ends == [BuildKind.NIGHTLY, BuildKind.NIGHTLY]:
            return found
        nights = self._catalogue.of(BuildKind.NIGHTLY)
        if not nights:
            raise RungEnds("no index of nightlies was read")
        raise RungEnds(f"the index has the nights {nights[0].name} to {nights[-1].name}, none between these")


def position_of(version: Version) -> Position:
    """Of a nightly by its date; of a release by its patch number."""
    minor = (version.major, version.minor)
    if version.is_devrelease and version.dev is not None:
        return Position(minor, 0, version.dev)
    return Position(minor, 1, version.micro)


def _installed_position(version: str) -> Position:
    """One from source (`2.15.0a0+git...`), whose date nobody knows, comes after the nights of its version."""
    try:
        parsed = Version(version)
    except InvalidVersion as error:
        raise BadOption(f"installed: torch says it is {version}; name --bad by a release instead") from error
    if parsed.is_prerelease and not parsed.is_devrelease:
        return Position((parsed.major, parsed.minor), 0, int(f"{date.max:%Y%m%d}"))
    return position_of(parsed)


def _before(build: Build, bound: Bound) -> bool:
    if bound.kind is BoundKind.NIGHTLY:
        return build.name < bound.text
    return build.position < position_of(Version(bound.text))
