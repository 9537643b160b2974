"""A run of pytest as a table: python -m tests.bench.by_file JUNIT.xml

For each file its tests that passed, failed and were skipped, and their seconds, the longest file first.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict

ENDS = ("passed", "failed", "error", "skipped")


def end_of(case: ElementTree.Element) -> str:
    """How one test ended; `failure` is pytest's word for an assertion that failed."""
    tags = {child.tag for child in case}
    if "failure" in tags:
        return "failed"
    return next((tag for tag in ("error", "skipped") if tag in tags), "passed")


def main(path: str) -> int:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(path).iter("testcase"):
        file = case.get("classname", "").replace(".", "/")
        counts[file][end_of(case)] += 1
        seconds[file] += float(case.get("time", 0))
    total = sum(counts.values(), Counter())
    rows = [*sorted(counts, key=lambda file: -seconds[file]), "all"]
    counts["all"], seconds["all"] = total, sum(seconds.values())
    print(f"{'file':44}" + "".join(f"{end:>9}" for end in ENDS) + f"{'seconds':>10}")
    for file in rows:
        print(f"{file:44}" + "".join(f"{counts[file][end]:9}" for end in ENDS) + f"{seconds[file]:10.1f}")
    return 0 if total and not total["failed"] + total["error"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
