"""Names of the files that numbisect writes: of an answer, and those by which its folders are known again."""

from __future__ import annotations

REPRO, TEST, NEIGHBOUR, PAGE = "repro.py", "test_repro.py", "neighbour.diff", "report.html"
RUN_OPTIONS, TRIAGE_OPTIONS = "options.json", "triage-options.json"
EVERY_RUN_SAYS = frozenset({"command", "target"})  # keys of a run's options; others have an options.json, too
