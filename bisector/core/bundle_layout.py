"""The names in a bundle, which the attached program writes and the command reads."""

from __future__ import annotations

VERSION = 1
CASE, DESCRIPTION = "case.py", "bundle.json"
