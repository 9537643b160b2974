"""The files by which a folder that numbisect itself wrote is known again: of a run, and of a triage."""

from __future__ import annotations

RUN_OPTIONS, TRIAGE_OPTIONS = "options.json", "triage-options.json"
EVERY_RUN_SAYS = frozenset({"command", "target"})  # keys of a run's options; others have an options.json, too
