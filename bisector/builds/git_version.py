"""The commit that a build says it was made of: `git_version` of torch/version.py, read without an import."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import BadZipFile

import requests
from remotezip import RemoteZip, RemoteZipError

FILE = "torch/version.py"
TIMEOUT_S = 30.0
_GIT = re.compile(r"^git_version\s*(?::[^=]*)?=\s*['\"]([0-9a-f]{40})['\"]", re.MULTILINE)


def in_site(site: Path) -> str | None:
    """Of the torch in a site-packages; None where it says none ("Unknown", as some nightlies did)."""
    version = site / FILE
    return _stated(version.read_text(encoding="utf-8")) if version.exists() else None


def in_wheel(url: str) -> str | None:
    """Of a wheel on a server, by a few ranges of its bytes; None where the server gives no ranges, or what
    comes is no wheel of torch."""
    try:
        with RemoteZip(url.partition("#")[0], timeout=TIMEOUT_S) as wheel:
            return _stated(wheel.read(FILE).decode("utf-8", errors="replace"))
    except (RemoteZipError, BadZipFile, KeyError, requests.RequestException):
        return None


def _stated(text: str) -> str | None:
    found = _GIT.search(text)
    return found[1] if found else None
