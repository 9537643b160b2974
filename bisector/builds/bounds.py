"""Bounds as users write them: a release, a nightly's date, a commit, `installed`, `latest`."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import date

from packaging.version import InvalidVersion, Version

from ..errors import BadOption

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_FORMS = "write a release (2.11 or 2.12.1), a nightly's date (2026-08-14), a commit, installed or latest"


class BoundKind(enum.Enum):
    RELEASE = "release"
    NIGHTLY = "nightly"
    COMMIT = "commit"
    INSTALLED = "installed"
    LATEST = "latest"


@dataclass(frozen=True)
class Bound:
    """text: in one form for each build, `2.11.0` for `2.11`."""

    kind: BoundKind
    text: str

    def __str__(self) -> str:
        return self.text


def parse_bound(text: str) -> Bound:
    """Raises BadOption for what is none of the forms."""
    plain = text.strip().lower()
    for kind in (BoundKind.INSTALLED, BoundKind.LATEST):
        if plain == kind.value:
            return Bound(kind, plain)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", plain):
        return Bound(BoundKind.NIGHTLY, _night(plain))
    # All digits can be a commit, but hardly ever is; a version of seven digits does not exist.
    if _COMMIT.fullmatch(plain):
        return Bound(BoundKind.COMMIT, plain)
    return Bound(BoundKind.RELEASE, _release(plain))


def _night(text: str) -> str:
    try:
        return str(date.fromisoformat(text))
    except ValueError as error:
        raise BadOption(f"{text}: there is no such day; write it as in 2026-08-14") from error


def _release(text: str) -> str:
    try:
        version = Version(text.removeprefix("v"))
    except InvalidVersion as error:
        raise BadOption(f"{text}: not a build; {_FORMS}") from error
    if version.is_prerelease:
        raise BadOption(f"{text}: not a release; a nightly is named by its date, such as 2026-08-14")
    return ".".join(str(part) for part in (*version.release, 0, 0)[: max(3, len(version.release))])
